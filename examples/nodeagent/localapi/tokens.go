// SPDX-License-Identifier: Apache-2.0

package localapi

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Tokens issues and checks bearer tokens for clients that cannot dial a unix socket. Tokens end after
// an hour, and with the process.
type Tokens struct{ key [32]byte }

// NewTokens returns Tokens with a random key.
func NewTokens() *Tokens {
	t := &Tokens{}
	_, _ = rand.Read(t.key[:]) // never fails
	return t
}

const tokenLife = time.Hour

// ServeHTTP answers with an ExecCredential, the output of an exec credential plug-in of kubectl. Serve
// it only behind Peers.
func (t *Tokens) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	ends := time.Now().Add(tokenLife)
	answer(w, http.StatusOK, map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
		"status": map[string]any{"token": t.issue(ends), "expirationTimestamp": metav1.NewTime(ends)},
	})
}

// issue returns a token that is valid until ends.
func (t *Tokens) issue(ends time.Time) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(ends.Unix()))
	return base64.RawURLEncoding.EncodeToString(t.sign(text))
}

// sign returns text with its signature.
func (t *Tokens) sign(text []byte) []byte {
	mac := hmac.New(sha256.New, t.key[:])
	mac.Write(text)
	return mac.Sum(text)
}

// isValid reports whether a token is valid at a time.
func (t *Tokens) isValid(token string, now time.Time) bool {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(data) != 8+sha256.Size {
		return false
	}
	ends := time.Unix(int64(binary.BigEndian.Uint64(data)), 0)
	return hmac.Equal(data, t.sign(data[:8:8])) && now.Before(ends)
}

// Guard lets only requests with a valid bearer token pass.
func (t *Tokens) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || !t.isValid(token, time.Now()) {
			refuse(w, apierrors.NewUnauthorized("want a token of the agent's socket: see nodeagent kubeconfig"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
