{{- define "atlatl.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "atlatl.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "atlatl.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "atlatl.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "atlatl.labels" -}}
app.kubernetes.io/name: atlatl
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "atlatl.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "atlatl.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "atlatl.pullSecrets" -}}
{{- range .Values.image.pullSecrets }}
- name: {{ . }}
{{- end }}
{{- end -}}

{{/* What a server and the migration trust, and further settings. */}}
{{- define "atlatl.commonEnvironment" -}}
{{- if .Values.trustedCertificates.configMap }}
- name: SSL_CERT_FILE
  value: /etc/atlatl-certificates/ca.crt
{{- end }}
{{- range $key, $value := .Values.settings }}
- name: ATLATL_{{ $key | upper | replace "." "__" }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* Secrets are files; no variable has one. */}}
{{- define "atlatl.serverEnvironment" -}}
{{- range $name, $value := .Values.bucket.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- if .Values.bucket.secret }}
{{- range .Values.bucket.secretKeys }}
- name: {{ . }}_FILE
  value: /run/secrets/bucket/{{ . }}
{{- end }}
{{- end }}
{{- if .Values.embedder.secret }}
- name: OPENAI_API_KEY_FILE
  value: /run/secrets/embedder/OPENAI_API_KEY
{{- end }}
{{- with .Values.traces.endpoint }}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- if .Values.traces.secret }}
- name: OTEL_EXPORTER_OTLP_HEADERS_FILE
  value: /run/secrets/traces/OTEL_EXPORTER_OTLP_HEADERS
{{- end }}
{{ include "atlatl.commonEnvironment" . }}
{{- end -}}
