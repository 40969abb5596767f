{{/*
The operator's settings: one variable per value, all written, so that `kubectl describe` shows what
it runs with. Lists are comma-separated. Read by kindling_operator/settings.py.
*/}}
{{- define "kindling.environment" -}}
- name: KINDLING_POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: KINDLING_POD_NAMESPACE
  valueFrom:
    fieldRef: {fieldPath: metadata.namespace}
- name: KINDLING_CUDA_IMAGE
  value: {{ include "kindling.image" (dict "root" $ "image" "runtime") | quote }}
- name: KINDLING_CPU_IMAGE
  value: {{ include "kindling.image" (dict "root" $ "image" "runtimeCpu") | quote }}
- name: KINDLING_IMAGE_PULL_POLICY
  value: {{ .Values.images.pullPolicy | quote }}
- name: KINDLING_IMAGE_PULL_SECRETS
  value: {{ join "," .Values.images.pullSecrets | quote }}
- name: KINDLING_WATCH_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
- name: KINDLING_LOG_LEVEL
  value: {{ .Values.logLevel | upper | quote }}
- name: KINDLING_NAME_FOREIGN_HOLDERS
  value: {{ .Values.nameForeignHolders | quote }}
- name: KINDLING_DEVELOPMENT_STORE
  value: {{ .Values.developmentStore | quote }}
- name: KINDLING_PROVE_ENDPOINT
  value: {{ .Values.proveEndpoint | quote }}
- name: KINDLING_CACHE_CLAIM
  value: {{ .Values.weights.cacheClaim | quote }}
- name: KINDLING_CACHE_MAX_BYTES
  value: {{ .Values.weights.cacheMaxBytes | quote }}
- name: KINDLING_RUNTIMES
  value: {{ .Values.runtimes | toJson | quote }}
- name: KINDLING_LEASE_NAME
  value: {{ include "kindling.operator" . | quote }}
{{- include "kindling.checkLeaderElection" .Values.leaderElection }}
- name: KINDLING_LEASE_DURATION
  value: {{ .Values.leaderElection.leaseDuration | quote }}
- name: KINDLING_RENEW_DEADLINE
  value: {{ .Values.leaderElection.renewDeadline | quote }}
- name: KINDLING_RETRY_PERIOD
  value: {{ .Values.leaderElection.retryPeriod | quote }}
{{- end -}}

{{/*
Refuses what the operator would refuse at its start; the schema cannot compare two values. Argument:
values.leaderElection. Prints nothing.
*/}}
{{- define "kindling.checkLeaderElection" -}}
{{- $lease := trimSuffix "s" .leaseDuration | int -}}
{{- $renew := trimSuffix "s" .renewDeadline | int -}}
{{- $retry := trimSuffix "s" .retryPeriod | int -}}
{{- if or (ge $renew $lease) (lt $renew (mul 2 $retry | int)) -}}
{{- fail (printf "leaderElection.renewDeadline is %s: set it to less than leaseDuration (%s) and at least twice retryPeriod (%s)" .renewDeadline .leaseDuration .retryPeriod) -}}
{{- end -}}
{{- end -}}
