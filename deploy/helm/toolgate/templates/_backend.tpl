{{- /* The pod template of a backend. `role` is empty, or `leader` or `worker` of a group of nodes: a
worker has engines, but no API, so it has neither a port nor probes. */}}
{{- define "toolgate.backendPod" -}}
{{- $backend := .part }}
{{- $security := dict "runAsUser" 10001 "fsGroup" 10001 "fsGroupChangePolicy" "OnRootMismatch" }}
{{- include "toolgate.pod" (set . "security" $security) }}
  containers:
    - name: backend
      {{- include "toolgate.container" . | nindent 6 }}
      args:
        - {{ $backend.model | quote }}
        - --served-model-name={{ $backend.servedModelName | default $backend.name }}
        - --host=0.0.0.0
        - --port=8000
        - --shutdown-timeout={{ sub $backend.terminationGracePeriodSeconds 30 }}
        {{- if .role }}
        - --nnodes=$(LWS_GROUP_SIZE)
        - --node-rank=$(LWS_WORKER_INDEX)
        - --master-addr=$(LWS_LEADER_ADDRESS)
        {{- end }}
        {{- if eq .role "worker" }}
        - --headless
        {{- end }}
        {{- range $backend.args }}
        - {{ . | quote }}
        {{- end }}
      env:
        {{- include "toolgate.fromSecret" (dict "root" .root "name" "VLLM_API_KEY" "key" "TOOLGATE_BACKEND_KEY") | nindent 8 }}
        {{- include "toolgate.fromSecret" (dict "root" .root "name" "TOOLGATE_METRICS_TOKEN") | nindent 8 }}
        - name: HF_TOKEN
          valueFrom:
            secretKeyRef: {name: {{ .root.Values.existingSecret }}, key: HF_TOKEN, optional: true}
        {{- include "toolgate.env" $backend.env | nindent 8 }}
      {{- if ne .role "worker" }}
      ports:
        - {name: http, containerPort: 8000}
      # Until vLLM has downloaded and loaded the model, it does not listen. The other probes
      # begin after the first success.
      startupProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: 10
        failureThreshold: {{ mul $backend.loadMinutes 6 }}
      # The plug-in responds, not only vLLM.
      readinessProbe:
        exec:
          command:
            - python3
            - -c
            - >-
              import os, urllib.request as r;
              r.urlopen(r.Request("http://127.0.0.1:8000/v1/toolgate/info",
              headers={"authorization": "Bearer " + os.environ["VLLM_API_KEY"]}), timeout=5)
        periodSeconds: 10
        timeoutSeconds: 8
      # A 503 once an engine is dead or does not respond.
      livenessProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 6
      {{- end }}
      lifecycle:
        preStop:
          exec: {command: ["sleep", "10"]}
      resources:
        requests:
          {{- toYaml $backend.resources.requests | nindent 10 }}
        limits:
          {{- toYaml $backend.resources.limits | nindent 10 }}
          {{- if $backend.gpus }}
          {{ $backend.gpuResource }}: {{ $backend.gpus }}
          {{- end }}
      volumeMounts:
        - {name: models, mountPath: /home/toolgate/.cache/huggingface}
        - {name: shm, mountPath: /dev/shm}
        {{- with $backend.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: shm
      emptyDir: {medium: Memory, sizeLimit: {{ $backend.sharedMemory }}}
    {{- if or $backend.cache.existingClaim $backend.cache.shared }}
    - name: models
      persistentVolumeClaim:
        claimName: {{ $backend.cache.existingClaim | default (printf "%s-backend-%s" .root.Release.Name $backend.name) }}
    {{- end }}
    {{- with $backend.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* A claim for the models of each pod. Empty if the pods share one. */}}
{{- define "toolgate.backendClaims" -}}
{{- if not (or .cache.existingClaim .cache.shared) -}}
volumeClaimTemplates:
  - metadata: {name: models}
    spec:
      {{- include "toolgate.claim" (dict "storage" .cache) | nindent 6 }}
{{- end }}
{{- end }}
