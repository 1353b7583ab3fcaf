// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig"
)

// A checkpoint begins with a line "keelson-checkpoint 1 BYTES SHA256" with the length and hash of
// the remaining content: a JSON object per line, one for each pod.

const (
	magic   = "keelson-checkpoint "
	version = "1"
	// longestHeader fits a version and a length of any size.
	longestHeader = 128
)

// line is a pod of a source.
type line struct {
	Source string  `json:"source"`
	Pod    *v1.Pod `json:"pod"`
}

// encode encodes the pods of the given sources, or of all sources if none is given. It returns
// ErrTooLarge as soon as the limit is exceeded.
func encode(pods iter.Seq2[string, *v1.Pod], sources []string, maxBytes int) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	for source, p := range pods {
		if len(sources) > 0 && !slices.Contains(sources, source) {
			continue
		}
		if err := enc.Encode(line{Source: source, Pod: slim(p)}); err != nil {
			return nil, fmt.Errorf("%w: a pod cannot be written as JSON", ErrCorrupt) // the error might contain a secret
		}
		if body.Len()+longestHeader > maxBytes {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxBytes)
		}
	}
	return seal(body.Bytes()), nil
}

// slim removes managedFields, which can be half of a pod and serve only clients of an API server.
func slim(p *v1.Pod) *v1.Pod {
	if p.ManagedFields == nil {
		return p
	}
	q := *p
	q.ManagedFields = nil
	return &q
}

// seal prepends the header to a body.
func seal(body []byte) []byte {
	return append([]byte(headerOf(body)+"\n"), body...)
}

func headerOf(body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf("%s%s %d %s", magic, version, len(body), hex.EncodeToString(sum[:]))
}

// decode is the inverse of encode. It returns the pods by source in their order. Errors wrap this
// package's errors and contain no data of pods.
func decode(data []byte) (map[string][]*v1.Pod, error) {
	body, err := unseal(data)
	if err != nil {
		return nil, err
	}
	pods, taken, n := map[string][]*v1.Pod{}, map[[2]string]bool{}, 1
	for text := range bytes.Lines(body) {
		n++
		var l line
		if err := json.Unmarshal(text, &l); err != nil || !acceptable(l, taken) {
			return nil, fmt.Errorf("%w: line %d is no pod of a source", ErrCorrupt, n) // err might contain a secret
		}
		pods[l.Source] = append(pods[l.Source], l.Pod)
	}
	return pods, nil
}

// acceptable reports whether a Store accepts the pod as a seed: it has a UID, and no other pod of
// its source has the same UID or name.
func acceptable(l line, taken map[[2]string]bool) bool {
	if l.Source == "" || l.Pod == nil || l.Pod.UID == "" {
		return false
	}
	uid, name := [2]string{l.Source, "uid " + string(l.Pod.UID)}, [2]string{l.Source, "name " + podconfig.FullName(l.Pod)}
	if taken[uid] || taken[name] {
		return false
	}
	taken[uid], taken[name] = true, true
	return true
}

// unseal checks the header and returns the body.
func unseal(data []byte) ([]byte, error) {
	if isPrefix(data, magic) {
		return nil, ErrTorn
	}
	rest, ours := bytes.CutPrefix(data, []byte(magic))
	if !ours {
		return nil, ErrForeign
	}
	header, body, whole := bytes.Cut(rest, []byte("\n"))
	switch {
	case !whole && len(header) < longestHeader:
		return nil, ErrTorn
	case len(header) >= longestHeader:
		return nil, fmt.Errorf("%w: its header is too long", ErrCorrupt)
	case magic+string(header) == headerOf(body):
		return body, nil
	}
	format, claims, _ := strings.Cut(string(header), " ")
	if format != version {
		return nil, ErrVersion
	}
	length, _, _ := strings.Cut(claims, " ")
	if n, err := strconv.Atoi(length); err == nil && len(body) < n {
		return nil, fmt.Errorf("%w: %d of %d bytes are there", ErrTorn, len(body), n)
	}
	return nil, fmt.Errorf("%w: its content does not match its checksum", ErrCorrupt)
}

// isPrefix reports whether data is only a beginning of text. An empty file or a file of zeros also
// counts, because a file system may leave either after a power failure.
func isPrefix(data []byte, text string) bool {
	return len(data) < len(text) && strings.HasPrefix(text, string(data)) || len(bytes.Trim(data, "\x00")) == 0
}
