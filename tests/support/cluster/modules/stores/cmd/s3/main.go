// Command s3 is the Versity S3 gateway over a folder. Beside its root it knows the credentials that
// a test's STS gives out, by a file each.
// Its own main brings the backends of clouds, whose SDKs would be half of the build.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3err"
)

type options struct {
	listen, data, about, sessions, cert, key string
}

func main() {
	var o options
	flag.StringVar(&o.listen, "listen", "127.0.0.1:9000", "address")
	flag.StringVar(&o.data, "data", "", "folder of the buckets")
	flag.StringVar(&o.about, "meta", "", "folder of what is known of objects, elsewhere")
	flag.StringVar(&o.sessions, "sessions", "", "folder of temporary credentials, a file for each access key")
	flag.StringVar(&o.cert, "cert", "", "certificate")
	flag.StringVar(&o.key, "key", "", "its key")
	flag.Parse()
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

func run(o options) error {
	side, err := meta.NewSideCar(o.about)
	if err != nil {
		return err
	}
	backend, err := posix.New(o.data, side, posix.PosixOpts{SideCarDir: o.about, Concurrency: 64})
	if err != nil {
		return err
	}
	root := auth.Account{Access: os.Getenv("ROOT_ACCESS_KEY"), Secret: os.Getenv("ROOT_SECRET_KEY")}
	return embedgw.RunVersityGW(context.Background(), backend, &embedgw.Config{
		RootUserAccess:    root.Access,
		RootUserSecret:    root.Secret,
		Ports:             []string{o.listen},
		CertFile:          o.cert,
		KeyFile:           o.key,
		MaxConnections:    4096,
		MaxRequests:       1024,
		MultipartMaxParts: 10000,
		KeepAlive:         true,
		Quiet:             true,
		IAMService:        sessions{auth.NewIAMServiceSingle(root), o.sessions},
	})
}

// sessions are good until the time in their files.
type sessions struct {
	auth.IAMService
	folder string
}

// expired is what S3 says then.
var expired = s3err.APIError{
	Code:           "ExpiredToken",
	Description:    "The provided token has expired.",
	HTTPStatusCode: http.StatusBadRequest,
}

type session struct {
	Secret, Token string
	Reads         bool
	Until         int64
}

// DeriveSigningKey is asked at each request; whoever may not read is an account without buckets.
func (s sessions) DeriveSigningKey(access, token, date, region, service string) ([]byte, auth.Account, error) {
	content, err := os.ReadFile(filepath.Join(s.folder, filepath.Base(access)))
	if err != nil {
		return nil, auth.Account{}, auth.ErrNoSuchUser
	}
	var known session
	if err := json.Unmarshal(content, &known); err != nil {
		return nil, auth.Account{}, err
	}
	if known.Until < time.Now().Unix() {
		return nil, auth.Account{}, expired
	}
	if token != known.Token {
		return nil, auth.Account{}, auth.ErrInvalidSessionToken
	}
	key := []byte("AWS4" + known.Secret)
	for _, part := range []string{date, region, service, "aws4_request"} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	role := auth.RoleUser
	if known.Reads {
		role = auth.RoleAdmin
	}
	return key, auth.Account{Access: access, Role: role, SessionToken: token}, nil
}
