package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
)

// uploads passes an upload of the XML API on as one of the JSON API, the only one that
// fake-gcs-server has without a signature in the address. A precondition goes with it.
func uploads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, object, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if r.Method != http.MethodPut || !found || r.URL.RawQuery != "" {
			next.ServeHTTP(w, r)
			return
		}
		query := url.Values{"uploadType": {"media"}, "name": {object}}
		if generation := r.Header.Get("X-Goog-If-Generation-Match"); generation != "" {
			query.Set("ifGenerationMatch", generation)
		}
		into := r.Clone(r.Context())
		into.Method = http.MethodPost
		into.URL = &url.URL{Path: "/upload/storage/v1/b/" + bucket + "/o", RawQuery: query.Encode()}
		into.RequestURI = into.URL.RequestURI()
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, into)
		var made struct{ Generation, Etag string }
		if answer.Code >= 300 || json.Unmarshal(answer.Body.Bytes(), &made) != nil {
			refuse(w, answer.Code, http.StatusText(answer.Code), strings.TrimSpace(answer.Body.String()))
			return
		}
		w.Header().Set("ETag", fmt.Sprintf("%q", strings.Trim(made.Etag, `"`)))
		w.Header().Set("X-Goog-Generation", made.Generation)
		w.WriteHeader(http.StatusOK)
	})
}
