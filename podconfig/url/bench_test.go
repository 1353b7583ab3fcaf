// SPDX-License-Identifier: Apache-2.0

package url_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

// canned answers requests without a network.
type canned string

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 2, ContentLength: int64(len(c)), Request: r,
		Header: http.Header{"Etag": {`"1"`}}, Body: io.NopCloser(strings.NewReader(string(c)))}
	if r.Header.Get("If-None-Match") == `"1"` {
		resp.StatusCode, resp.ContentLength, resp.Body = http.StatusNotModified, 0, http.NoBody
	}
	return resp, nil
}

// untagged is canned without an ETag.
type untagged struct{ canned }

func (u untagged) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.canned.RoundTrip(r)
	resp.Header.Del("Etag")
	return resp, err
}

// BenchmarkPollUnchanged measures a poll of 100 unchanged pods without the network, the periodic
// work of an idle node. naive decodes each body.
func BenchmarkPollUnchanged(b *testing.B) {
	var items []string
	for i := range 100 {
		items = append(items, fmt.Sprintf("web-%d=x:1", i))
	}
	text := canned(list(items...))
	dec := &manifest.Decoder{NodeName: "n"}
	for name, transport := range map[string]http.RoundTripper{"etag": text, "hash": untagged{text}} {
		b.Run(name, func(b *testing.B) {
			s, err := url.New(url.Config{URL: "http://site.example", Decoder: dec, Client: &http.Client{Transport: transport}})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := s.Poll(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if r, err := s.Poll(b.Context()); err != nil || r.Problem != nil || r.Changed || len(r.Pods) != 100 {
					b.Fatal(r, err)
				}
			}
		})
	}
	b.Run("naive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := dec.Pods([]byte(text), manifest.Origin{Kind: manifest.OriginURL}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
