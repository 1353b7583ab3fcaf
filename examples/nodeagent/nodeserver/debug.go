// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Disabled answers every request below the paths with 405 and a text, as the kubelet does for
// endpoints that its configuration disables: "Debug endpoints are disabled.".
func Disabled(text string, paths ...string) (g Group) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, http.StatusMethodNotAllowed) })
	for _, path := range paths {
		path = strings.TrimSuffix(path, "/")
		g.routes = append(g.routes, route{pattern: path, handler: h}, route{pattern: path + "/", handler: h})
	}
	return g
}

// Config serves the result of config under /configz, in the form of a KubeletConfiguration. The
// result is encoded as JSON and must not contain secrets.
func Config(config func() (any, error)) Group {
	return Handle("/configz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fields, err := config()
		var text []byte
		if err == nil {
			text, err = json.Marshal(map[string]any{"kubeletconfig": fields})
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("encode the configuration: %v", err), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // a client that has left cannot be told
	}))
}

// notForMachines stands above the texts of /flagz and /statusz.
const notForMachines = "Warning: This endpoint is not meant to be machine parsed, has no formatting compatibility guarantees and is for debugging purposes only.\n\n"

// Flags serves the values of a program's flags under /flagz, as text. Values must not contain
// secrets.
func Flags(program string, flags func() map[string]string) Group {
	return asText("/flagz", func() string {
		var text strings.Builder
		fmt.Fprintf(&text, "\n%s flagz\n%s", program, notForMachines)
		values := flags()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			fmt.Fprintf(&text, "%s=%s\n", name, values[name])
		}
		return text.String()
	})
}

// maxVerbosityText is the number of bytes that LogVerbosity reads.
const maxVerbosityText = 64

// LogVerbosity serves PUT /debug/flags/v: the body is the new verbosity of the program's log, as a
// number of 0 or more. Answers are those of the kubelet 1.36.
func LogVerbosity(set func(verbosity int)) Group {
	return Group{[]route{{http.MethodPut, "/debug/flags/v", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxVerbosityText))
		if err != nil {
			reply(w, http.StatusBadRequest, "error reading request body: "+err.Error())
			return
		}
		verbosity, err := strconv.ParseInt(string(text), 10, 32)
		if err == nil && verbosity < 0 {
			err = strconv.ErrRange
		}
		if err != nil {
			reply(w, http.StatusBadRequest, fmt.Sprintf("failed set klog.logging.verbosity %s: %v", text, err))
			return
		}
		set(int(verbosity))
		reply(w, http.StatusOK, fmt.Sprintf("successfully set klog.logging.verbosity to %d", verbosity))
	})}}}
}

// Program describes a program for Status.
type Program struct {
	Name    string
	Started time.Time
	Version string
	// Paths are the endpoints of the program. They are not changed.
	Paths []string
}

// Status serves the description of a program under /statusz, as text.
func Status(p Program) Group {
	paths := strings.Join(slices.Sorted(slices.Values(p.Paths)), " ")
	return asText("/statusz", func() string {
		up := time.Since(p.Started)
		return fmt.Sprintf("\n%s statusz\n%sStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nPaths: %s\n",
			p.Name, notForMachines, p.Started.UTC().Format(time.RFC1123), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
			goruntime.Version(), p.Version, paths)
	})
}

// asText serves a text. A request that accepts only other media types is answered with 406.
func asText(path string, text func() string) Group {
	return Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !acceptsText(r.Header.Values("Accept")) {
			http.Error(w, "only text/plain is served", http.StatusNotAcceptable)
			return
		}
		reply(w, http.StatusOK, text())
	}))
}

// acceptsText reports whether an Accept header is missing or has text/plain, as itself or by a
// wildcard.
func acceptsText(accept []string) bool {
	if len(accept) == 0 {
		return true
	}
	for _, kind := range strings.Split(strings.Join(accept, ","), ",") {
		media, _, err := mime.ParseMediaType(kind)
		if err == nil && (media == "text/plain" || media == "text/*" || media == "*/*") {
			return true
		}
	}
	return false
}
