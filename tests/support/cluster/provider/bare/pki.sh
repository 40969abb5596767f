# A throw-away CA, the certificates of every component and their kubeconfigs.
# shellcheck shell=bash

# make_pki DIR: does nothing where they are complete.
make_pki() (
  mkdir -p "$1"
  cd "$1" || exit 1
  [ ! -e complete ] || exit 0
  umask 077
  new_ca ca onenode-ca
  new_ca front-proxy-ca onenode-front-proxy-ca
  new_cert apiserver ca /CN=kube-apiserver serverAuth \
    "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$NODE_IP,IP:$API_SVC_IP"
  new_cert kubelet ca "/O=system:nodes/CN=system:node:$NODE" serverAuth,clientAuth "DNS:$NODE,IP:$NODE_IP"
  new_cert apiserver-kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
  new_cert front-proxy-client front-proxy-ca /CN=front-proxy-client clientAuth
  new_cert admin ca /O=system:masters/CN=admin clientAuth
  new_cert controller-manager ca /CN=system:kube-controller-manager clientAuth
  new_cert scheduler ca /CN=system:kube-scheduler clientAuth
  new_cert proxy ca /CN=system:kube-proxy clientAuth
  openssl genrsa -out sa.key 2048 2>/dev/null # RS256: what every OIDC verifier accepts
  openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
  local user
  for user in admin controller-manager scheduler proxy kubelet; do
    write_kubeconfig . "$user" "https://$NODE_IP:6443" > "$user.kubeconfig"
  done
  touch complete
)

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

# new_ca FILE COMMON-NAME
new_ca() {
  new_key "$1"
  openssl req -x509 -new -key "$1.key" -subj "/CN=$2" -days 3650 -out "$1.crt"
}

# new_cert FILE CA SUBJECT USAGE [SUBJECT-ALTERNATIVE-NAMES]
new_cert() {
  new_key "$1"
  openssl req -new -key "$1.key" -subj "$3" -out "$1.csr"
  { echo keyUsage=digitalSignature; echo "extendedKeyUsage=$4"; [ -z "${5:-}" ] || echo "subjectAltName=$5"; } > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -CAcreateserial -days 3650 -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  rm -f "$1.csr" "$1.ext"
}

# write_kubeconfig PKI-DIR USER SERVER
write_kubeconfig() {
  local b64="base64 -w0"
  cat <<K
apiVersion: v1
kind: Config
clusters: [{name: kindling-$NAME, cluster: {server: "$3", certificate-authority-data: $($b64 "$1/ca.crt")}}]
users: [{name: $2, user: {client-certificate-data: $($b64 "$1/$2.crt"), client-key-data: $($b64 "$1/$2.key")}}]
contexts: [{name: kindling-$NAME, context: {cluster: kindling-$NAME, user: $2}}]
current-context: kindling-$NAME
K
}
