// Command gcs is fake-gcs-server's storage in memory, for bearers of a known token only: it asks for
// none by itself.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "address")
	host := flag.String("host", "localhost:9000", "what it is called in addresses")
	sessions := flag.String("sessions", "", "folder of access tokens, a file for each")
	cert := flag.String("cert", "", "certificate")
	key := flag.String("key", "", "its key")
	flag.Parse()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: *host})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServeTLS(*listen, *cert, *key, checked(uploads(server.HTTPHandler()), *host, *sessions)))
}

// checked answers as GCS does whom it does not know, and who may not read.
func checked(next http.Handler, host, sessions string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		content, err := os.ReadFile(filepath.Join(sessions, filepath.Base(token)))
		var known struct {
			Reads bool
			Until int64
		}
		switch {
		case err != nil || json.Unmarshal(content, &known) != nil, known.Until < time.Now().Unix():
			refuse(w, http.StatusUnauthorized, "AuthenticationRequired", "Authentication required.")
		case !known.Reads:
			refuse(w, http.StatusForbidden, "AccessDenied", "Access denied.")
		default:
			r.Host = host // it comes through a relay too, whose port is another one
			next.ServeHTTP(w, r)
		}
	})
}

func refuse(w http.ResponseWriter, status int, code, says string) {
	w.Header().Set("Content-Type", "application/xml; charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version='1.0' encoding='UTF-8'?><Error><Code>%s</Code><Message>%s</Message></Error>", code, says)
}
