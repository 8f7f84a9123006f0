{{- define "toolgate.labels" -}}
app.kubernetes.io/name: toolgate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .model }}
toolgate/model: {{ . }}
{{- end }}
{{- end }}

{{- define "toolgate.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}{{ with .model }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "toolgate.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  {{- with .more }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "toolgate.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{- /* A pod template up to what differs between workloads. `part`: the values of the workload.
`security`: user and groups. `annotations`: beside those of the values. */}}
{{- define "toolgate.pod" -}}
metadata:
  labels:
    {{- include "toolgate.labels" . | nindent 4 }}
  {{- with mergeOverwrite (deepCopy (.part.podAnnotations | default dict)) (.annotations | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "toolgate.serviceAccount" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- merge (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) .security | toYaml | nindent 4 }}
  {{- range $name := list "terminationGracePeriodSeconds" "runtimeClassName" "nodeSelector" "affinity" "tolerations" "initContainers" }}
  {{- with get $.part $name }}
  {{- dict $name . | toYaml | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end }}

{{- /* What the containers of all workloads have in common. */}}
{{- define "toolgate.container" -}}
image: {{ .part.image }}
{{- with .part.imagePullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  {{- if .readOnly }}
  readOnlyRootFilesystem: true
  {{- end }}
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* The specification of a volume claim. `storage`: size and storage class. */}}
{{- define "toolgate.claim" -}}
accessModes: [{{ .mode | default "ReadWriteOnce" }}]
{{- with .storage.storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .storage.size }}}
{{- end }}

{{- define "toolgate.fromSecret" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.existingSecret }}, key: {{ .key | default .name }}}
{{- end }}

{{- define "toolgate.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  {{- if kindIs "map" $value }}
  valueFrom:
    secretKeyRef: {name: {{ $value.secret }}, key: {{ $value.key | default $name }}}
  {{- else }}
  value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* LiteLLM's configuration: the shipped one, the models, and the values of `litellm`. */}}
{{- define "toolgate.config" -}}
{{- $rows := list }}
{{- range $model := .Values.models }}
{{- $urls := $model.urls | default list }}
{{- if $model.model }}
{{- $service := printf "%s-backend-%s" $.Release.Name $model.name }}
{{- $backend := mergeOverwrite (deepCopy $.Values.backend) $model }}
{{- if $backend.autoscaling.enabled }}
{{- $urls = append $urls (printf "dns+http://%s:8000" $service) }}
{{- else }}
{{- range $at := until (int $backend.replicas) }}
{{- $urls = append $urls (printf "http://%s-%d.%s:8000" $service $at $service) }}
{{- end }}
{{- end }}
{{- end }}
{{- $name := $model.servedModelName | default $model.name }}
{{- range $url := $urls }}
{{- $params := dict "model" (printf "toolgate/%s" $name) "api_base" $url "api_key" "os.environ/TOOLGATE_BACKEND_KEY" }}
{{- $row := dict "model_name" $name "litellm_params" $params }}
{{- $rows = append $rows (mergeOverwrite $row (deepCopy ($model.litellm | default dict))) }}
{{- end }}
{{- end }}
{{- $shipped := .Files.Get "files/litellm_config.yaml" | fromYaml }}
{{- $config := mergeOverwrite $shipped (deepCopy (omit .Values.litellm "model_list")) }}
{{- if .Values.database.enabled }}
{{- $_ := set $config "general_settings" (omit $config.general_settings "custom_auth" "custom_auth_run_common_checks") }}
{{- end }}
{{- $rows = concat $rows (.Values.litellm.model_list | default list) | default list }}
{{- set $config "model_list" $rows | toYaml }}
{{- end }}
