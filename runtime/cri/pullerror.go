// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"regexp"
	"strings"

	"github.com/keelson-dev/keelson/runtime"
)

// pullError translates the error of a failed pull. The runtimes' prefixes are recognized as in the
// kubelet (see cri-api's pkg/errors). Access parts of addresses are removed, because many people
// can read a pod's status. A missing image is not a missing container.
func pullError(err error) error {
	e, ok := errors.AsType[*CallError](err)
	if !ok {
		return err
	}
	out := &CallError{Call: e.Call, Code: e.Code, Message: withoutAccess(e.Message), kind: e.kind}
	for _, known := range []error{runtime.ErrRegistryUnavailable, runtime.ErrSignatureValidationFailed} {
		if rest, ok := strings.CutPrefix(out.Message, known.Error()); ok {
			out.kind = known
			out.Message = strings.TrimPrefix(rest, ": ") // the kind already says so
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

// address is a URL. The parts before the @ and behind the ? give access: registries sign the
// addresses of their stores.
var address = regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://)([^\s/"'@]*@)?([^\s"'?]*)(\?[^\s"']*)?`)

// withoutAccess returns the message without the parts of addresses granting access to a registry.
// runtime.Manager conceals the credentials of the pull itself.
func withoutAccess(message string) string {
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
