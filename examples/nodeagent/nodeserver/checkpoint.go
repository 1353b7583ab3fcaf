// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/cri"
)

// CheckpointOptions configure Checkpoint.
type CheckpointOptions struct {
	// Pods finds the pod of a request. Required.
	Pods PodFinder
	// Runtime has the containers. Required. A runtime.Checkpointer makes the checkpoints.
	Runtime runtime.Runtime
	// Dir is the absolute path of the folder for the files. It is created with mode 0700. Required.
	Dir string
}

// Checkpoint serves /checkpoint/NAMESPACE/POD/CONTAINER: the state of the running container is written
// to a file on the node, and the answer has the path of the file. The parameter timeout is the time for
// that in seconds. Answers and the names of files are those of the kubelet 1.36. The files remain until
// an administrator removes them. Unlike in the kubelet, one checkpoint is made at a time.
func Checkpoint(opts CheckpointOptions) Group {
	s := &checkpointServer{opts, make(chan struct{}, 1)}
	return Group{[]route{{http.MethodPost, "/checkpoint/{namespace}/{pod}/{container}", http.HandlerFunc(s.serve)}}}
}

type checkpointServer struct {
	CheckpointOptions
	turn chan struct{} // has a value while a checkpoint is made
}

func (s *checkpointServer) serve(w http.ResponseWriter, r *http.Request) {
	pod, name := s.Pods(r.PathValue("namespace"), r.PathValue("pod")), r.PathValue("container")
	switch {
	case pod == nil:
		reply(w, http.StatusNotFound, "pod does not exist")
		return
	case containerOf(pod, name) == nil:
		reply(w, http.StatusNotFound, fmt.Sprintf("container %s does not exist", name))
		return
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		reply(w, http.StatusNotFound, err.Error())
		return
	}
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		w.Header().Set("Retry-After", "10")
		reply(w, http.StatusTooManyRequests, "another checkpoint is being made")
		return
	}
	path, err := s.checkpoint(ctx, pod, name)
	if err != nil {
		reply(w, http.StatusInternalServerError, fmt.Sprintf("checkpointing of %s/%s/%s failed (%s)", pod.Namespace, pod.Name, name, checkpointError(err)))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string][]string{"items": {path}}) // a client that has left cannot be told
}

// withTimeout returns a context with the timeout that a request asks for.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	values := r.URL.Query()["timeout"]
	if len(values) == 0 {
		return r.Context(), func() {}, nil
	}
	seconds, err := strconv.ParseUint(values[len(values)-1], 10, 31) // the last value, as in the kubelet
	if err != nil {
		return nil, nil, errors.New("cannot parse value of timeout parameter")
	}
	if seconds == 0 {
		return r.Context(), func() {}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(seconds)*time.Second)
	return ctx, cancel, nil
}

// checkpoint makes a checkpoint and returns the path of the file.
func (s *checkpointServer) checkpoint(ctx context.Context, pod *v1.Pod, name string) (string, error) {
	checkpointer, ok := s.Runtime.(runtime.Checkpointer)
	if !ok {
		return "", fmt.Errorf("checkpoints: %w", runtime.ErrUnsupported)
	}
	status, err := s.Runtime.PodStatus(ctx, pod.UID)
	if err != nil {
		return "", err
	}
	for _, c := range status.Running() {
		if c.Name != name {
			continue
		}
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return "", err
		}
		path := filepath.Join(s.Dir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", pod.Name, pod.Namespace, name, time.Now().Format(time.RFC3339)))
		if err := checkpointer.Checkpoint(ctx, c.ID, path); err != nil {
			return "", errors.Join(err, missing.Ignore(os.Remove(path)))
		}
		return path, nil
	}
	return "", fmt.Errorf("container %s not found", name)
}

// checkpointError returns the text of an error. A runtime's own error has the form of grpc, which clients
// search for.
func checkpointError(err error) string {
	if call, ok := errors.AsType[*cri.CallError](err); ok {
		return fmt.Sprintf("rpc error: code = %s desc = %s", call.Code, call.Message)
	}
	return err.Error()
}
