// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/runtime"
)

// RunCommand serves /run/NAMESPACE/POD[/UID]/CONTAINER: the command of the parameter cmd, whose
// arguments are separated by single spaces, runs in the container, and the answer is its output. The
// runtime keeps the first 16 KiB of each of standard output and error. As in the kubelet, the UID is
// ignored.
func RunCommand(pods PodFinder, rt runtime.Runtime) Group {
	s := &streamServer{StreamOptions: StreamOptions{Pods: pods, Runtime: rt}}
	return Group{[]route{
		{http.MethodPost, "/run/{namespace}/{pod}/{container}", http.HandlerFunc(s.serveRun)},
		{http.MethodPost, "/run/{namespace}/{pod}/{uid}/{container}", http.HandlerFunc(s.serveRun)},
	}}
}

func (s *streamServer) serveRun(w http.ResponseWriter, r *http.Request) {
	_, c, err := s.running(r)
	execer, ok := s.Runtime.(runtime.Execer)
	switch {
	case err != nil:
	case c == nil:
		err = fmt.Errorf("container not found (%q)", r.PathValue("container"))
	case !ok:
		err = fmt.Errorf("run a command: %w", runtime.ErrUnsupported)
	}
	var stdout, stderr []byte
	if err == nil {
		cmd := strings.Split(r.FormValue("cmd"), " ")
		var code int
		stdout, stderr, code, err = execer.Exec(r.Context(), c.ID, cmd)
		if err == nil && code != 0 {
			err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), code, slices.Concat(stdout, stderr))
		}
	}
	if err != nil {
		refuseStream(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json") // the kubelet's label of any output
	_, _ = w.Write(slices.Concat(stdout, stderr))      // a client that has left cannot be told
}
