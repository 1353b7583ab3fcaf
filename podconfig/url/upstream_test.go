// SPDX-License-Identifier: Apache-2.0

package url_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

// Each test in this file shows the absence of a fault of kubelet 1.36.3, or that its behaviour is
// kept.

// The kubelet remembers a body before decoding it: an invalid body is an error once, and then a
// success.
func TestUpstreamBadBodyIsASuccessFromTheSecondPollOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.source()
		for range 5 {
			r := f.poll(s, body("kind: Pod"))
			require.ErrorIs(t, r.Problem, manifest.ErrNotPod)
			require.False(t, r.Ready, "it has not told anything yet")
		}
	})
}

// In the kubelet the third poll emits nothing, and the pods stay gone until the content changes.
func TestUpstreamPodsStayGoneAfterAnEmptyBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.source()
		require.Equal(t, []string{"a=x:1"}, images(f.poll(s, body(pod("a", "x:1"))).Pods))
		r := f.poll(s, body(""))
		require.True(t, r.Changed)
		require.Empty(t, r.Pods)
		require.ErrorIs(t, r.Problem, url.ErrEmptyBody)
		r = f.poll(s, body(pod("a", "x:1")))
		require.True(t, r.Changed)
		require.NoError(t, r.Problem)
		require.Equal(t, []string{"a=x:1"}, images(r.Pods))
	})
}

// The kubelet logs the entire body if it cannot parse the body.
func TestUpstreamBodyIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		core, lines := observer.New(zap.DebugLevel)
		f := newFixture(t, func(c *url.Config) { c.Problem, c.Logger = nil, zap.New(core) })
		f.serve(body("{" + secret))
		r := f.run()
		for _, text := range []string{"kind: Pod\nspec: " + secret, "a: {b: " + secret + "}", "apiVersion: v1\nkind: Pod\nspec: {containers: [{env: [{value: " + secret + "}]}]}\nmetadata: {name: a}"} {
			r.next(body(text), 2)
		}
		r.next(body(pod("a", "x:1")), 2)
		require.NoError(t, r.stop())
		all := lines.All()
		require.Len(t, all, 4+1, "each problem once, and the end of them")
		for _, line := range all {
			require.NotContains(t, line.Message, secret)
			for _, value := range line.ContextMap() {
				require.NotContains(t, value, secret)
			}
			require.Equal(t, "http://site.example/pods", line.ContextMap()["url"])
		}
		require.Equal(t, "pods are read from the URL again", all[len(all)-1].Message)
	})
}

// Kept: a status other than 200 changes nothing, and neither does a failing connection.
func TestUpstreamOtherStatusKeepsThePods(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.serve(body(pod("a", "x:1")))
		r := f.run()
		require.Equal(t, [][]string{{"a=x:1"}}, r.take())
		for _, code := range []int{http.StatusNoContent, http.StatusNotFound, http.StatusBadGateway} {
			r.next(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }, 1)
		}
		require.Empty(t, r.take())
		require.NoError(t, r.stop())
	})
}

// Kept: a list with a single invalid pod is invalid as a whole.
func TestUpstreamOneBadItemRejectsTheList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.source()
		f.poll(s, body(list("a=x:1", "b=x:1")))
		r := f.poll(s, body(list("a=x:2", "b=")))
		require.Error(t, r.Problem)
		require.Equal(t, []string{"a=x:1", "b=x:1"}, images(r.Pods))
	})
}

// #87461: for the same URL on two nodes, the kubelet gives both pods the same UID.
func TestUpstream87461TwoNodesShareAUID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		a := f.poll(f.source(), body(pod("a", "x:1")))
		f.config.Decoder = &manifest.Decoder{NodeName: "m"}
		b := f.poll(f.source(), body(pod("a", "x:1")))
		require.NotEqual(t, a.Pods[0].UID, b.Pods[0].UID)
	})
}

// #15122: a URL that never answers keeps the kubelet's gate closed for all sources. Here readiness
// is per source, and a silent source submits nothing.
func TestUpstream15122SilentURLTellsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.serve(status(http.StatusServiceUnavailable))
		r := f.run()
		r.next(status(http.StatusServiceUnavailable), 10)
		require.Empty(t, r.take())
		require.Len(t, r.told(), 1)
		require.NoError(t, r.stop())
	})
}
