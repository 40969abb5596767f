{{/* Prefix of every object of the chart: the release's name, with "kindling" in it once. */}}
{{- define "kindling.fullname" -}}
{{- if contains "kindling" .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-kindling" (.Release.Name | trunc 44 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* Name of the operator's Deployment, ServiceAccount, roles and bindings. */}}
{{- define "kindling.operator" -}}
{{- printf "%s-operator" (include "kindling.fullname" .) -}}
{{- end -}}

{{/* What selects the operator's pods. Immutable in a Deployment: never add to it. */}}
{{- define "kindling.selectorLabels" -}}
app.kubernetes.io/name: kindling
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "kindling.labels" -}}
{{ include "kindling.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
Complete reference of one image; argument: dict "root" $ "image" <key under values.images>.
A digest wins over the chart's version; a tag that is set beside it stays for people to read.
*/}}
{{- define "kindling.image" -}}
{{- $images := .root.Values.images -}}
{{- if not $images.registry -}}
{{- fail "images.registry is empty: set it to the registry that holds Kindling's images, for example --set images.registry=registry.example.com (none are published yet; `images/build --push REGISTRY` builds and pushes your own)" -}}
{{- end -}}
{{- $image := index $images .image -}}
{{- $reference := printf "%s/%s" $images.registry $image.repository -}}
{{- if $image.digest -}}
{{- if $image.tag -}}
{{- $reference = printf "%s:%s" $reference $image.tag -}}
{{- end -}}
{{- printf "%s@%s" $reference $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $reference ($image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Container settings of Pod Security "restricted", with a read-only root filesystem on top. */}}
{{- define "kindling.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Pod settings of Pod Security "restricted"; 65532 is the images' own user. */}}
{{- define "kindling.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Where to pull images with, if anything. */}}
{{- define "kindling.pullSecrets" -}}
{{- with .Values.images.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end -}}
{{- end -}}
