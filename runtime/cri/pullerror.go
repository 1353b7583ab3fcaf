// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"

	"github.com/keelson-dev/keelson/runtime"
)

// pullError makes of a failed pull what is to be told of it. It recognizes what
// runtimes put before the message, as the kubelet does (cri-api's pkg/errors has
// the words), and takes secrets out: a pod's status is read by many. A missing
// image is no missing container.
func pullError(err error, auth *runtime.ImageAuth) error {
	e, ok := errors.AsType[*CallError](err)
	if !ok {
		return err
	}
	out := &CallError{Call: e.Call, Code: e.Code, Message: withoutSecrets(e.Message, auth), kind: e.kind}
	for _, known := range []error{runtime.ErrRegistryUnavailable, runtime.ErrSignatureValidationFailed} {
		if rest, ok := strings.CutPrefix(out.Message, known.Error()); ok {
			out.kind = known
			out.Message = strings.TrimPrefix(rest, ": ") // the kind says it
			return out
		}
	}
	if errors.Is(err, runtime.ErrNotFound) {
		out.kind = nil
	}
	return out
}

// hidden is shown where a secret was.
const hidden = "(hidden)"

// address is a URL. What is before the @ and behind the ? gives access:
// registries sign the addresses of their stores.
var address = regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)([^\s/"'@]*@)?([^\s"'?]*)(\?[^\s"']*)?`)

// withoutSecrets returns a runtime's words without what gives access to a
// registry: that of auth, which registries may repeat, and that in addresses.
func withoutSecrets(message string, auth *runtime.ImageAuth) string {
	if auth != nil {
		basic := base64.StdEncoding.EncodeToString([]byte(auth.Username + ":" + auth.Password))
		for _, secret := range []string{basic, auth.Auth, auth.Password, auth.IdentityToken, auth.RegistryToken} {
			if len(secret) > 3 { // what is shorter hides words, and no secret
				message = strings.ReplaceAll(message, secret, hidden)
			}
		}
	}
	return address.ReplaceAllStringFunc(message, func(url string) string {
		part := address.FindStringSubmatch(url)
		out := part[1]
		if part[2] != "" {
			out += hidden + "@"
		}
		out += part[3]
		if query := part[4]; query != "" {
			out += "?" + hidden + query[len(strings.TrimRight(query, ".,:;)")):]
		}
		return out
	})
}
