// SPDX-License-Identifier: Apache-2.0

package url_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

func TestPollTakesPodsAndLists(t *testing.T) {
	tests := []struct {
		name, body string
		want       []string
	}{
		{"pod in YAML", pod("a", "x:1"), []string{"a=x:1"}},
		{"list in JSON", list("a=x:1", "b=x:2"), []string{"a=x:1", "b=x:2"}},
		{"list in YAML", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n  spec: {containers: [{name: main, image: \"x:1\"}]}\n", []string{"a=x:1"}},
		{"empty list", list(), []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				s := f.source()
				r := f.poll(s, body(tc.body))
				require.NoError(t, r.Problem)
				require.True(t, r.Ready && r.Changed)
				require.Equal(t, tc.want, images(r.Pods))
				r = f.poll(s, body(tc.body))
				require.NoError(t, r.Problem)
				require.True(t, r.Ready)
				require.False(t, r.Changed)
				require.Equal(t, tc.want, images(r.Pods))
			})
		})
	}
}

func TestPollSendsTheCallersHeaders(t *testing.T) {
	bubble(t, func(t *testing.T) {
		values := []string{"a", "b"}
		f := newFixture(t, func(c *url.Config) { c.Header = http.Header{"x-site": values, "Host": {"virtual.example"}} })
		s := f.source()
		values[0] = "changed"
		f.poll(s, body(pod("a", "x:1")))
		f.poll(s, body(pod("a", "x:1")))
		for _, r := range f.asked() {
			require.Equal(t, http.MethodGet, r.Method)
			require.Equal(t, []string{"a", "b"}, r.Header["X-Site"])
			require.Equal(t, "virtual.example", r.Host)
			require.Equal(t, "/pods?token="+secret, r.URL.RequestURI())
			user, password, _ := r.BasicAuth()
			require.Equal(t, []string{"user", secret}, []string{user, password})
		}
	})
}

func TestPollIsConditional(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s, full := f.source(), 0
		f.poll(s, tagged(`"1"`, pod("a", "x:1"), &full))
		for range 3 {
			r := f.poll(s, tagged(`"1"`, pod("a", "x:1"), &full))
			require.NoError(t, r.Problem)
			require.False(t, r.Changed)
			require.Equal(t, []string{"a=x:1"}, images(r.Pods))
		}
		require.Equal(t, 1, full)
		r := f.poll(s, tagged(`"2"`, pod("a", "x:2"), &full))
		require.Equal(t, []string{"a=x:2"}, images(r.Pods))
		require.Equal(t, 2, full)
	})
}

// The same body under a new tag is no change, and the next request uses the new tag.
func TestPollFollowsTheTag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s, full := f.source(), 0
		f.poll(s, tagged(`"1"`, pod("a", "x:1"), &full))
		for range 3 {
			require.False(t, f.poll(s, tagged(`"2"`, pod("a", "x:1"), &full)).Changed)
		}
		require.Equal(t, 2, full)
	})
}

func TestPollOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s := f.source()
		r := f.poll(s, body(""))
		require.True(t, r.Changed && r.Ready, "no pods is an answer")
		require.ErrorIs(t, r.Problem, url.ErrEmptyBody)
		r = f.poll(s, body(list()))
		require.NoError(t, r.Problem)
		require.False(t, r.Changed, "it is the same answer")
		f.poll(s, body(pod("a", "x:1")))
		r = f.poll(s, func(w http.ResponseWriter, _ *http.Request) {
			var buf bytes.Buffer
			require.NoError(t, gzip.NewWriter(&buf).Close())
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(buf.Bytes())
		})
		require.ErrorIs(t, r.Problem, url.ErrEmptyBody, "it says that it is empty, in gzip's way")
		require.True(t, r.Changed)
	})
}

// An invalid body is fetched and decoded once, and stays a problem.
func TestPollOfABadBodyIsConditionalToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		s, full := f.source(), 0
		f.poll(s, tagged(`"1"`, pod("a", "x:1"), &full))
		for range 3 {
			r := f.poll(s, tagged(`"2"`, "kind: Pod", &full))
			require.ErrorIs(t, r.Problem, manifest.ErrNotPod)
			require.False(t, r.Changed)
			require.Equal(t, []string{"a=x:1"}, images(r.Pods))
		}
		require.Equal(t, 2, full)
		r := f.poll(s, tagged(`"1"`, pod("a", "x:1"), &full))
		require.NoError(t, r.Problem)
		require.False(t, r.Changed, "the pods have been told")
	})
}

func TestPollTrustsNoFreshTimes(t *testing.T) {
	const now = "Sat, 01 Jan 2000 00:01:00 GMT"
	tests := []struct {
		name, etag, modified, date string
		since, match               string
	}{
		{name: "old", modified: "Sat, 01 Jan 2000 00:00:58 GMT", date: now, since: "Sat, 01 Jan 2000 00:00:58 GMT"},
		{name: "old with tag", etag: `"t"`, modified: "Sat, 01 Jan 2000 00:00:58 GMT", date: now, since: "Sat, 01 Jan 2000 00:00:58 GMT", match: `"t"`},
		{name: "a second old", etag: `"t"`, modified: "Sat, 01 Jan 2000 00:00:59 GMT", date: now},
		{name: "nonsense", etag: `"t"`, modified: "yesterday", date: now, match: `"t"`},
		{name: "tag alone", etag: `W/"t"`, date: now, match: `W/"t"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				s := f.source()
				for range 2 {
					f.poll(s, func(w http.ResponseWriter, _ *http.Request) {
						for name, value := range map[string]string{"ETag": tc.etag, "Last-Modified": tc.modified, "Date": tc.date} {
							if value != "" {
								w.Header().Set(name, value)
							}
						}
						_, _ = io.WriteString(w, pod("a", "x:1"))
					})
				}
				asked := f.asked()
				require.Empty(t, asked[0].Header.Get("If-Modified-Since")+asked[0].Header.Get("If-None-Match"))
				require.Equal(t, tc.since, asked[1].Header.Get("If-Modified-Since"))
				require.Equal(t, tc.match, asked[1].Header.Get("If-None-Match"))
			})
		})
	}
}

// TestPollKeepsTheLastGoodPods tests the faults of polls and their reports.
func TestPollKeepsTheLastGoodPods(t *testing.T) {
	const want = "http://site.example/pods: "
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"garbage", body("\x00\x01" + secret), "1:1: manifest is not a text file"},
		{"not YAML", body("a: [" + secret), "1:1: not valid YAML"},
		{"HTML", body("<html>" + secret + "</html>"), "1:1: not a Pod: the document is a string"},
		{"comment", body("# " + secret), "manifest is empty"},
		{"another kind", body("apiVersion: v1\nkind: Secret\ndata: {a: " + secret + "}"), `2:7: kind: not a Pod: its kind is "Secret"`},
		{"one bad pod of two", body(list("a=x:1", "B_=x:2")), "1:146: metadata.name: "},
		{"11 MiB announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "11534336")
			_, _ = io.WriteString(w, secret)
		}, "manifest is too large: it must be smaller than 10485760 bytes"},
		{"11 MiB", func(w http.ResponseWriter, _ *http.Request) {
			for range 11 << 4 {
				if _, err := w.Write(bytes.Repeat([]byte("#"), 1<<16)); err != nil {
					return
				}
			}
		}, "manifest is too large: it must be smaller than 10485760 bytes"},
		{"11 MiB in few bytes", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped())
		}, "manifest is too large: it must be smaller than 10485760 bytes"},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "the server answered 204 No Content"},
		{"304 unasked", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "the server answered 304 Not Modified"},
		{"404", status(http.StatusNotFound), "the server answered 404 Not Found"},
		{"500", status(http.StatusInternalServerError), "the server answered 500 Internal Server Error"},
		{"299", status(299), "the server answered 299"},
		{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no complete answer within 10s"},
		{"silence within the body", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, pod("a", "x:1"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "no complete answer within 10s"},
		{"cut before the answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"the connection ended before the answer did"},
		{"cut within the body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, pod("a", "x:1"))
		}, "the connection ended before the answer did"},
		{"an end that may be a cut", raw("HTTP/1.0 200 OK\r\n\r\n"),
			"the connection ended before the body, or the body is empty without saying so"},
		{"redirect without end", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/pods?token="+secret, http.StatusFound)
		}, "stopped after 10 redirects"},
		{"redirect to nowhere", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://u:"+secret+"@%zz/?"+secret)
			w.WriteHeader(http.StatusFound)
		}, `failed to parse Location header "…": parse "…": invalid URL escape "…"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				s := f.source()
				require.True(t, f.poll(s, body(pod("good", "x:1"))).Changed)
				for range 2 {
					r := f.poll(s, tc.answer)
					require.Error(t, r.Problem)
					require.True(t, strings.HasPrefix(r.Problem.Error(), want+tc.want), r.Problem.Error())
					for err := r.Problem; err != nil; err = errors.Unwrap(err) {
						require.NotContains(t, err.Error(), secret)
						require.NotContains(t, err.Error(), "\n")
					}
					require.False(t, r.Changed)
					require.Equal(t, []string{"good=x:1"}, images(r.Pods))
				}
				r := f.poll(s, body(pod("good", "x:1")))
				require.NoError(t, r.Problem)
				require.False(t, r.Changed)
			})
		})
	}
}

// zipped is 11 MiB with a small compressed size.
var zipped = sync.OnceValue(func() []byte {
	var buf bytes.Buffer
	z, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	_, _ = z.Write(make([]byte, 11<<20))
	_ = z.Close()
	return buf.Bytes()
})

// raw answers with given bytes and closes the connection.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
}

func TestPollAtTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *url.Config) { c.Decoder.MaxBytes = 1000 })
		s := f.source()
		text := pod("a", "x:1")
		r := f.poll(s, body(text+strings.Repeat("#", 1000-len(text))))
		require.ErrorIs(t, r.Problem, manifest.ErrTooLarge)
		require.False(t, r.Ready)
		require.Nil(t, r.Pods)
		r = f.poll(s, body(text+strings.Repeat("#", 999-len(text))))
		require.NoError(t, r.Problem)
	})
}

func TestPollEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		f.serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		_, err := f.source().Poll(ctx)
		require.ErrorIs(t, err, cause)
		require.Equal(t, time.Second, time.Since(f.start))
	})
}

// An unreachable network is a single problem, whatever port is in the error text.
func TestPollTellsWhyThereIsNoConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *url.Config) {
			network := newPipes()
			_ = network.Close()
			c.Client = &http.Client{Transport: &http.Transport{DialContext: network.dial}}
		})
		r := f.poll(f.source(), nil)
		var transport *url.TransportError
		require.ErrorAs(t, r.Problem, &transport)
		require.EqualError(t, transport, "dial tcp: use of closed network connection")
		require.False(t, transport.Timeout())
	})
}

// The decoder receives the origin of a manifest without possible secrets.
func TestOriginHoldsNoSecrets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var origins []manifest.Origin
		f := newFixture(t, func(c *url.Config) {
			c.Decoder.Warn = func(o manifest.Origin, _ string) { origins = append(origins, o) }
			c.Decoder.Policy = func(*v1.Pod) error { return nil }
		})
		s := f.source()
		first := f.poll(s, body(strings.Replace(pod("a", "x:1"), "name: a", "name: a\n  annotations: {kubernetes.io/config.mirror: x}", 1)))
		require.NoError(t, first.Problem)
		require.Equal(t, []manifest.Origin{{Kind: manifest.OriginURL, Location: "http://site.example/pods"}}, origins)
		require.Equal(t, origins[0].Location, s.URL())

		f.config.URL = strings.ReplaceAll(f.config.URL, secret, "rotated")
		second := f.poll(f.source(), body(pod("a", "x:1")))
		third := f.poll(f.source(), body(pod("a", "x:1")))
		require.Equal(t, second.Pods[0].UID, third.Pods[0].UID)
	})
}

// TestRandomSpreadsPolls expects that the random number sets the tenth added to or subtracted from
// a period.
func TestRandomSpreadsPolls(t *testing.T) {
	for random, want := range map[float64]time.Duration{0: 18 * time.Second, 0.5: 20 * time.Second} {
		f := newFixture(t)
		f.config.Random = func() float64 { return random }
		r := f.poll(f.source(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		if r.Ready {
			require.Equal(t, want, r.Next)
		} else {
			require.Equal(t, want/20, r.Next)
		}
	}
}
