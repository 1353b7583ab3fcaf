// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ServeHTTP implements the parts of the distribution specification needed for a pull.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	log := &Request{Method: q.Method, Path: q.URL.Path, Range: q.Header.Get("Range")}
	b := r.note(log)
	a := &answer{ResponseWriter: w, r: r, log: log}
	defer a.end(q)
	if b.Latency > 0 {
		timer := time.NewTimer(b.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-q.Context().Done():
			return
		}
	}
	signed := b.Redirect != "" && q.URL.RawQuery == b.Redirect
	username, password, _ := q.BasicAuth()
	switch {
	case b.Unavailable > 0:
		a.refuse(b, http.StatusServiceUnavailable, "UNAVAILABLE")
	case !signed && b.Username != "" && (username != b.Username || password != b.Password):
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		a.refuse(b, http.StatusUnauthorized, "UNAUTHORIZED")
	case signed && b.Expired:
		a.refuse(b, http.StatusForbidden, "DENIED")
	case q.Method != http.MethodGet && q.Method != http.MethodHead:
		a.refuse(b, http.StatusMethodNotAllowed, "UNSUPPORTED")
	default:
		r.serve(a, q, b, signed)
	}
}

// note records a request and returns the behaviour for the request.
func (r *Registry) note(log *Request) Behaviour {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.requests = append(r.mu.requests, log)
	b := r.mu.behaviour
	r.mu.behaviour.Unavailable = max(b.Unavailable-1, 0)
	return b
}

// takeCut reports whether to cut the next layer.
func (r *Registry) takeCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	cut := r.mu.behaviour.Cuts > 0
	r.mu.behaviour.Cuts = max(r.mu.behaviour.Cuts-1, 0)
	return cut
}

// serve answers a request accepted by ServeHTTP.
func (r *Registry) serve(a *answer, q *http.Request, b Behaviour, signed bool) {
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	a.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if path == "" {
		a.WriteHeader(http.StatusOK)
		return
	}
	if repository, ref, ok := strings.Cut(path, "/manifests/"); ok {
		mark := ":"
		if strings.Contains(ref, ":") {
			mark = "@"
		}
		manifest, ok := r.manifests[repository+mark+ref]
		if !ok {
			a.refuse(b, http.StatusNotFound, "MANIFEST_UNKNOWN")
			return
		}
		a.Header().Set("Content-Type", manifestType)
		a.Header().Set("Docker-Content-Digest", "sha256:"+digest(manifest))
		a.send(q, manifest)
		return
	}
	name := blobOf(q.URL.Path)
	blob, ok := r.blobs[name]
	switch {
	case !ok:
		a.refuse(b, http.StatusNotFound, "BLOB_UNKNOWN")
	case b.Redirect != "" && !signed:
		a.Header().Set("Location", "http://"+q.Host+q.URL.Path+"?"+b.Redirect)
		a.WriteHeader(http.StatusTemporaryRedirect)
	case r.layers[name] && q.Method == http.MethodGet:
		a.sendLayer(q, b, blob)
	default:
		a.send(q, blob)
	}
}

// answer records the sent status and bytes.
type answer struct {
	http.ResponseWriter
	r   *Registry
	log *Request
}

func (a *answer) WriteHeader(status int) {
	a.r.mu.Lock()
	a.log.Status = status
	a.r.mu.Unlock()
	a.ResponseWriter.WriteHeader(status)
}

// end records the end of the answer.
func (a *answer) end(q *http.Request) {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	a.log.Ended, a.log.Abandoned = true, q.Context().Err() != nil
}

// write sends a part of the body, at once.
func (a *answer) write(content []byte) error {
	n, err := a.Write(content)
	a.r.mu.Lock()
	a.log.Sent += int64(n)
	a.r.mu.Unlock()
	if err != nil {
		return err
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

func (a *answer) send(q *http.Request, content []byte) {
	a.Header().Set("Content-Length", strconv.Itoa(len(content)))
	a.WriteHeader(http.StatusOK)
	if q.Method == http.MethodGet {
		_ = a.write(content) // the client has left
	}
}

// sendLayer is send with the faults for layers.
func (a *answer) sendLayer(q *http.Request, b Behaviour, layer []byte) {
	cut, from := a.r.takeCut(), 0
	if _, err := fmt.Sscanf(a.log.Range, "bytes=%d-", &from); err != nil || !b.Ranges || from >= len(layer) {
		from = 0
	}
	if !cut && b.Hold == nil && !b.Corrupt && from == 0 {
		a.send(q, layer)
		return
	}
	if b.Corrupt {
		layer = slices.Clone(layer)
		layer[len(layer)/4] ^= 1
	}
	status := http.StatusOK
	if from > 0 {
		a.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(layer)-1, len(layer)))
		layer, status = layer[from:], http.StatusPartialContent
	}
	a.Header().Set("Content-Length", strconv.Itoa(len(layer)))
	a.WriteHeader(status)
	half := len(layer) / 2
	if a.write(layer[:half]) != nil {
		return
	}
	if cut {
		return // less than was announced: net/http breaks the connection
	}
	if b.Hold != nil {
		select {
		case <-b.Hold:
		case <-q.Context().Done():
			return
		}
	}
	_ = a.write(layer[half:])
}

// refuse answers with an error document.
func (a *answer) refuse(b Behaviour, status int, code string) {
	type problem struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(struct {
		Errors []problem `json:"errors"`
	}{[]problem{{code, strings.TrimSpace(http.StatusText(status) + " " + b.Complaint)}}})
	if err != nil {
		status = http.StatusInternalServerError
	}
	a.Header().Set("Content-Type", "application/json")
	a.WriteHeader(status)
	_ = a.write(body)
}
