// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Registry is an image registry on a port of 127.0.0.1 that speaks plain HTTP. Registry is
// read-only, and misbehaves according to its Behaviour.
type Registry struct {
	// Host is the registry's part of references: address and port.
	Host string

	manifests map[string][]byte // by repository:tag and repository@digest
	digests   map[string]string // of manifests, by repository:tag
	blobs     map[string][]byte // by digest
	layers    map[string]bool   // the blobs that are layers

	mu struct {
		sync.Mutex
		behaviour Behaviour
		requests  []*Request
	}
}

// Behaviour is the misbehaviour of a registry. The zero value is a correct registry. Layers contain
// the file systems of images; manifests and configs are always sent whole.
type Behaviour struct {
	// Username and Password are required by Basic authentication, unless empty.
	Username, Password string
	// Latency is how long every answer takes to come.
	Latency time.Duration
	// Unavailable is how many requests from now on are answered by 503.
	Unavailable int
	// Cuts is how many answers with a layer end half-way: the connection breaks.
	Cuts int
	// Ranges honours ranges of layers from a byte to the end.
	Ranges bool
	// Hold stops layers half-way until closed.
	Hold <-chan struct{}
	// Corrupt changes one byte of each layer.
	Corrupt bool
	// Redirect, if not empty, redirects requests for blobs to a URL with Redirect as its query, as
	// registries with signed URLs do.
	Redirect string
	// Expired refuses redirected requests.
	Expired bool
	// Complaint is appended to the text of every error.
	Complaint string
}

// Request is a request to the registry.
type Request struct {
	Method, Path string
	Range        string // the header
	Status       int
	Sent         int64 // bytes of the body
	Ended        bool
	Abandoned    bool // the client disconnected before receiving the whole answer
}

// StartRegistry starts a registry that serves images until t ends. Their names have no host:
// "app:1". Without an instance, busybox is that of the machine, and a machine without the programs
// of an instance skips the test.
func StartRegistry(t testing.TB, i *Instance, images ...Image) *Registry {
	t.Helper()
	if i == nil {
		b, err := findBinaries("")
		failOrSkip(t, err)
		i = &Instance{binaries: b}
	}
	r, err := NewRegistry(i, images...)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // requests with a held layer
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// NewRegistry returns a registry that serves images under all of their names, with the busybox of an
// instance. It is a http.Handler without a Host.
func NewRegistry(i *Instance, images ...Image) (*Registry, error) {
	r := &Registry{
		manifests: map[string][]byte{}, digests: map[string]string{},
		blobs: map[string][]byte{}, layers: map[string]bool{},
	}
	for _, image := range images {
		for _, image.Name = range image.names() {
			if err := r.add(image, i.binaries.busybox); err != nil {
				return nil, fmt.Errorf("image %s: %w", image.Name, err)
			}
		}
	}
	return r, nil
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// add makes the documents of an image.
func (r *Registry) add(image Image, busybox string) error {
	repository, tag, ok := strings.Cut(image.Name, ":")
	if !ok || tag == "" {
		return fmt.Errorf("want repository:tag")
	}
	layer, config, err := image.parts(busybox)
	if err != nil {
		return err
	}
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int    `json:"size"`
	}
	describe := func(mediaType string, content []byte) descriptor {
		d := descriptor{mediaType, "sha256:" + digest(content), len(content)}
		r.blobs[d.Digest] = content
		return d
	}
	l := describe(layerType, layer)
	r.layers[l.Digest] = true
	manifest, err := json.Marshal(struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        descriptor   `json:"config"`
		Layers        []descriptor `json:"layers"`
	}{2, manifestType, describe(configType, config), []descriptor{l}})
	if err != nil {
		return err
	}
	r.digests[image.Name] = "sha256:" + digest(manifest)
	r.manifests[image.Name] = manifest
	r.manifests[repository+"@"+r.digests[image.Name]] = manifest
	return nil
}

// Ref returns the reference of an image by tag.
func (r *Registry) Ref(name string) string { return r.Host + "/" + name }

// Digest returns the digest of an image's manifest: "sha256:…".
func (r *Registry) Digest(name string) string { return r.digests[name] }

// Behave tells the registry how to behave from now on.
func (r *Registry) Behave(b Behaviour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.behaviour = b
}

// Requests returns all requests so far with their results, in the order of arrival.
func (r *Registry) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Request, len(r.mu.requests))
	for i, q := range r.mu.requests {
		out[i] = *q
	}
	return out
}

// Layers are the requests for layers so far, redirections left out.
func (r *Registry) Layers() []Request {
	return slices.DeleteFunc(r.Requests(), func(q Request) bool {
		return q.Method != http.MethodGet || q.Status == http.StatusTemporaryRedirect || !r.layers[blobOf(q.Path)]
	})
}

// blobOf returns the digest of the blob in path, or "".
func blobOf(path string) string {
	_, digest, _ := strings.Cut(path, "/blobs/")
	return digest
}
