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

// Registry is a registry on a port of 127.0.0.1, which containerd speaks plain
// HTTP with. It is read-only, knows no ranges, and misbehaves as it is told.
type Registry struct {
	// Host is the registry's part of references: address and port.
	Host string

	manifests map[string][]byte // by repository:tag and repository@digest
	digests   map[string]string // of manifests, by repository:tag
	blobs     map[string][]byte // by digest
	layers    map[string]bool   // which of blobs are layers

	mu struct {
		sync.Mutex
		behaviour Behaviour
		requests  []*Request
	}
}

// Behaviour is what a registry does other than serve. The zero value is a good
// registry's. Layers are what the file systems of images are in; the small
// documents about them are always sent whole.
type Behaviour struct {
	// Username and Password are asked for, by Basic authentication, unless they
	// are empty.
	Username, Password string
	// Latency is how long every answer takes to come.
	Latency time.Duration
	// Unavailable is how many requests from now on are answered by 503.
	Unavailable int
	// Cuts is how many answers with a layer end half-way: the connection breaks.
	Cuts int
	// Hold makes layers flow only half-way, until it is closed.
	Hold <-chan struct{}
	// Corrupt sends layers with one byte changed.
	Corrupt bool
	// Redirect, if not empty, is the query of an address that blobs are fetched
	// from instead, as registries do that sign addresses.
	Redirect string
	// Expired refuses such addresses.
	Expired bool
	// Complaint is part of every answer that is an error.
	Complaint string
}

// Request is one that the registry was sent.
type Request struct {
	Method, Path string
	Status       int
	Sent         int64 // bytes of the body
	Ended        bool
	Abandoned    bool // the client left before it had everything
}

// StartRegistry starts a registry that serves images until t ends. Their names
// have no host: "app:1".
func StartRegistry(t testing.TB, i *Instance, images ...Image) *Registry {
	t.Helper()
	r := &Registry{
		manifests: map[string][]byte{}, digests: map[string]string{},
		blobs: map[string][]byte{}, layers: map[string]bool{},
	}
	for _, image := range images {
		if err := r.add(image, i.binaries.busybox); err != nil {
			t.Fatalf("image %s: %v", image.Name, err)
		}
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // those whose layer is held back
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
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
	layer, err := image.layer(busybox)
	if err != nil {
		return err
	}
	config, err := image.config(layer)
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

// Ref is the reference of an image by its tag.
func (r *Registry) Ref(name string) string { return r.Host + "/" + name }

// Digest is that of an image's manifest: "sha256:…".
func (r *Registry) Digest(name string) string { return r.digests[name] }

// Behave tells the registry how to behave from now on.
func (r *Registry) Behave(b Behaviour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.behaviour = b
}

// Requests are those so far, in the order in which they came, and what has come
// of them.
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

// blobOf is the digest of the blob that path is about, or "".
func blobOf(path string) string {
	_, digest, _ := strings.Cut(path, "/blobs/")
	return digest
}
