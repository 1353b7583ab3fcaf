// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	// protocolHeader has the subprotocols that the client of a WebSocket offers.
	protocolHeader = "Sec-Websocket-Protocol"
	// tokenProtocol is the prefix of a subprotocol that carries a token: browsers cannot set the
	// header Authorization of a WebSocket.
	tokenProtocol = "base64url.bearer.authorization.k8s.io."
)

// Errors of bearer. They do not contain the token.
var (
	errTwoTokens     = errors.New("the request has two tokens in Sec-WebSocket-Protocol")
	errNotBase64     = errors.New("the token in Sec-WebSocket-Protocol is not base64url of UTF-8 text")
	errOnlyTheToken  = errors.New("Sec-WebSocket-Protocol has a token and no other protocol")
	errTokenTooLarge = errors.New("the token is too large")
)

// maxToken is the limit for the size of a token in bytes.
const maxToken = 64 << 10

// bearer returns the token of a request, or "" if there is none. The header Authorization has
// precedence over a subprotocol of a WebSocket.
func bearer(h http.Header) (string, error) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	token, _, _ = strings.Cut(strings.TrimSpace(token), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	if token == "" && isWebSocket(h) {
		var err error
		if token, err = protocolToken(protocols(h)); err != nil {
			return "", err
		}
	}
	if len(token) > maxToken {
		return "", errTokenTooLarge
	}
	return token, nil
}

// protocolToken returns the token in a list of subprotocols.
func protocolToken(list []string) (token string, err error) {
	others := false
	for _, p := range list {
		encoded, ok := strings.CutPrefix(p, tokenProtocol)
		if !ok {
			others = true
			continue
		}
		if token != "" {
			return "", errTwoTokens
		}
		decoded, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil || len(decoded) == 0 || !utf8.Valid(decoded) {
			return "", errNotBase64
		}
		token = string(decoded)
	}
	if token != "" && !others {
		return "", errOnlyTheToken // the answer must name a protocol, and would name the token
	}
	return token, nil
}

// withoutCredentials returns r, or a copy without tokens if r has tokens.
func withoutCredentials(r *http.Request) *http.Request {
	list := protocols(r.Header)
	kept := make([]string, 0, len(list))
	for _, p := range list {
		if !strings.HasPrefix(p, tokenProtocol) {
			kept = append(kept, p)
		}
	}
	if len(kept) == len(list) && r.Header.Get("Authorization") == "" {
		return r
	}
	clean := r.WithContext(r.Context())
	clean.Header = r.Header.Clone()
	clean.Header.Del("Authorization")
	if len(list) > 0 {
		clean.Header.Set(protocolHeader, strings.Join(kept, ", "))
	}
	return clean
}

// protocols returns the subprotocols of a WebSocket request, in the client's order.
func protocols(h http.Header) (list []string) {
	for _, line := range h.Values(protocolHeader) {
		for _, p := range strings.Split(line, ",") {
			if p = strings.TrimSpace(p); p != "" {
				list = append(list, p)
			}
		}
	}
	return list
}

// isWebSocket reports whether a request asks for an upgrade to a WebSocket.
func isWebSocket(h http.Header) bool {
	return strings.EqualFold(h.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(h.Get("Connection")), "upgrade")
}
