// SPDX-License-Identifier: Apache-2.0

package url_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/podconfig/url"
)

func TestRunTellsWhatChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.serve(body(pod("a", "x:1")))
		r := f.run()
		require.Equal(t, [][]string{{"a=x:1"}}, r.take(), "at once")
		r.next(body(pod("a", "x:1")), 3)
		require.Empty(t, r.take())
		r.next(body(list("a=x:2", "b=x:1")), 1)
		require.Equal(t, [][]string{{"a=x:2", "b=x:1"}}, r.take())
		r.next(body(list()), 1)
		require.Equal(t, [][]string{{}}, r.take())
		require.Empty(t, r.told())
		require.NoError(t, r.stop())
	})
}

func TestRunTellsEachProblemOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.serve(body(pod("a", "x:1")))
		r := f.run()
		hang := func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }
		for range 3 { // a server with alternating answers
			r.next(hang, 2)
			r.next(status(http.StatusBadGateway), 2)
			r.next(body("kind: Pod"), 2)
		}
		require.Equal(t, []string{"no complete answer within 10s", "the server answered 502 Bad Gateway",
			`1:1: not a Pod: apiVersion is missing: add "apiVersion: v1"`}, r.told())
		r.next(body(pod("a", "x:1")), 3)
		require.Equal(t, []string{"ok"}, r.told())
		r.next(status(http.StatusBadGateway), 3)
		require.Equal(t, []string{"the server answered 502 Bad Gateway"}, r.told(), "again, after it was well")
		require.Len(t, r.take(), 1, "the pods of the start are all that was ever told")
		require.NoError(t, r.stop())
	})
}

// The text of a network error may differ each time by its ports.
func TestRunTellsAnUnreachableServerOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		port := 0
		f := newFixture(t, func(c *url.Config) {
			c.Client = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				port++
				return nil, &net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
			}}}
		})
		r := f.run()
		r.next(nil, 5)
		require.Equal(t, []string{"dial tcp :1: connect: connection refused"}, r.told())
		require.Greater(t, port, 5)
		require.NoError(t, r.stop())
	})
}

func TestRunPollsEveryPeriodMoreOrLess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.serve(body(pod("a", "x:1")))
		r := f.run()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.NoError(t, r.stop())
		at, different := f.times(), map[time.Duration]bool{}
		for i := range len(at) - 1 {
			gap := at[i+1] - at[i]
			require.GreaterOrEqual(t, gap, 18*time.Second)
			require.LessOrEqual(t, gap, 22*time.Second)
			different[gap] = true
		}
		require.Greater(t, len(different), 100, "chance has a part")
	})
}

func TestRunTriesSoonerUntilItHasPods(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.serve(status(http.StatusBadGateway))
		r := f.run()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.NoError(t, r.stop())
		at := f.times()
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 20, 20} {
			require.InDelta(t, want*time.Second, at[i+1]-at[i], float64(want*time.Second)/10, "poll %d", i+1)
		}
	})
}

func TestRunHeedsRetryAfter(t *testing.T) {
	tests := []struct {
		name, after string
		code        int
		want        time.Duration
	}{
		{"seconds", "120", http.StatusTooManyRequests, 2 * time.Minute},
		{"date", "Sat, 01 Jan 2000 00:05:00 GMT", http.StatusServiceUnavailable, 5 * time.Minute},
		{"for ever", strconv.Itoa(1 << 30), http.StatusServiceUnavailable, 10 * time.Minute},
		{"past", "Sat, 01 Jan 1994 00:05:00 GMT", http.StatusServiceUnavailable, time.Second},
		{"negative", "-5", http.StatusServiceUnavailable, time.Second},
		{"nonsense", "soon", http.StatusServiceUnavailable, time.Second},
		{"other status", "120", http.StatusNotFound, time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				r := f.poll(f.source(), func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", tc.after)
					w.WriteHeader(tc.code)
				})
				require.InDelta(t, tc.want, r.Next, float64(tc.want)/10)
			})
		})
	}
}

func TestRunEnds(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"between two polls", body(pod("a", "x:1"))},
		{"in a poll", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t)
				f.serve(tc.answer)
				r := f.run()
				before := time.Now()
				require.NoError(t, r.stop())
				require.Equal(t, before, time.Now(), "at once")
			})
		})
	}
}

func TestRunEndsWithItsSink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.serve(body(pod("a", "x:1")))
		cause := errors.New("full")
		source := f.source()
		require.ErrorIs(t, source.Run(t.Context(), &sink{err: cause}), cause)
		require.ErrorIs(t, source.Run(t.Context(), &sink{}), url.ErrRunning)
	})
}

func TestNewNamesTheBadField(t *testing.T) {
	good := func() url.Config {
		return url.Config{URL: "https://site.example/pods", Decoder: &manifest.Decoder{NodeName: "n"}}
	}
	tests := []struct {
		name string
		edit func(*url.Config)
		want string
	}{
		{"no URL", func(c *url.Config) { c.URL = "" }, "URL: is empty"},
		{"broken URL", func(c *url.Config) { c.URL = "http://u:" + secret + "@%zz" }, "URL: is not well-formed"},
		{"other scheme", func(c *url.Config) { c.URL = "ftp://" + secret }, "URL: must begin with http:// or https://"},
		{"no host", func(c *url.Config) { c.URL = "http:///" + secret }, "URL: has no host"},
		{"no decoder", func(c *url.Config) { c.Decoder = nil }, "Decoder: "},
		{"period", func(c *url.Config) { c.Period = -1 }, "Period"},
		{"condition", func(c *url.Config) { c.Header = http.Header{"if-none-match": {secret}} }, "Header: If-None-Match"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := good()
			tc.edit(&c)
			_, err := url.New(c)
			require.ErrorIs(t, err, url.ErrConfig)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), secret)
		})
	}
	s, err := url.New(good())
	require.NoError(t, err)
	require.Equal(t, "http", s.Name())
}
