// SPDX-License-Identifier: Apache-2.0

package url

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hops answers each request with a redirect to the next address, and the last with 200.
type hops struct {
	to   []string
	seen []*http.Request
}

func (h *hops) RoundTrip(r *http.Request) (*http.Response, error) {
	h.seen = append(h.seen, r)
	resp := &http.Response{StatusCode: http.StatusOK, ProtoMajor: 2, Header: http.Header{}, Body: http.NoBody, Request: r}
	if len(h.seen) <= len(h.to) {
		resp.StatusCode = http.StatusFound
		resp.Header.Set("Location", h.to[len(h.seen)-1])
	}
	return resp, nil
}

// TestOwnClientFollowsRedirectsWithCare tests that X-Token and the query stay with the first host.
// net/http alone sends X-Token to any host, and the query in the Referer.
func TestOwnClientFollowsRedirectsWithCare(t *testing.T) {
	tests := []struct {
		name string
		to   []string
		err  string
		// kept records for each request whether it had the header.
		kept []bool
	}{
		{name: "same host", to: []string{"/b"}, kept: []bool{true, true}},
		{name: "other host and back", to: []string{"https://other.example/b", "https://site.example/c"}, kept: []bool{true, false, true}},
		{name: "to http", to: []string{"http://site.example/b"}, err: "refused a redirect from https to http", kept: []bool{true}},
		{name: "for ever", to: strings.Fields(strings.Repeat("/a ", 20)), err: "stopped after 10 redirects",
			kept: []bool{true, true, true, true, true, true, true, true, true, true}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			server := &hops{to: tc.to}
			client := newClient(http.Header{"X-Token": {"t"}})
			client.Transport = server
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://site.example/a?token=t", nil)
			require.NoError(t, err)
			req.Header.Set("X-Token", "t")
			_, err = client.Do(req) //nolint:bodyclose // there is none
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
			var kept []bool
			for _, r := range server.seen {
				kept = append(kept, r.Header.Get("X-Token") != "")
				if r.URL.Host != "site.example" {
					require.NotContains(t, r.Referer(), "token")
				}
			}
			require.Equal(t, tc.kept, kept)
		})
	}
}

// FuzzScrub expects a short line without URLs or quoted texts for any foreign error.
func FuzzScrub(f *testing.F) {
	f.Add(`Get "https://u:p@h/?t=1": failed`)
	f.Add("proxy socks5://u:p@h: refused")
	f.Add("a\nb\x00c\xff \"open")
	f.Add(strings.Repeat("ä", 500))
	f.Fuzz(func(t *testing.T, text string) {
		got := scrub(text)
		require.NotContains(t, got, "://")
		require.NotContains(t, got, "\n")
		require.LessOrEqual(t, len(got), shownBytes+len("…"))
		require.NotContains(t, scrub(`Get "`+strings.NewReplacer(`"`, "", `\`, "").Replace(text)+`hunter2": failed`), "hunter2")
	})
}
