{{- define "toolgate.labels" -}}
app.kubernetes.io/name: toolgate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "toolgate.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "toolgate.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "toolgate.backends" -}}
{{- if .Values.backend.enabled }}
{{- range $at := until (int .Values.backend.replicas) }}
- http://{{ $.Release.Name }}-backend-{{ $at }}.{{ $.Release.Name }}-backend:8000
{{- end }}
{{- end }}
{{- range .Values.backend.urls }}
- {{ . }}
{{- end }}
{{- end }}

{{- define "toolgate.fromSecret" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.existingSecret }}, key: {{ .key | default .name }}}
{{- end }}

{{- define "toolgate.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
