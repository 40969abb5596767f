{{/*
A binding of one role to the operator's ServiceAccount. Arguments: root, kind (RoleBinding or
ClusterRoleBinding), namespace (of a RoleBinding), role (Role or ClusterRole), name (of the role),
suffix (of the binding's name, which is the role's otherwise).
*/}}
{{- define "kindling.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}{{ .suffix }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "kindling.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .role }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "kindling.operator" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
