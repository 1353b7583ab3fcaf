// SPDX-License-Identifier: Apache-2.0

//go:build !nolocalapi

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/localapi"
)

// client talks to the agent of this machine through its socket.
type client struct {
	socket string
	http   *http.Client
}

func newClient(socket string) *client {
	c := &client{socket: socket}
	c.http = &http.Client{Transport: &http.Transport{DialContext: c.dial, DisableCompression: true}}
	return c
}

func (c *client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no agent answers at %s (is it running? see --socket and --root-dir)", c.socket)
	case errors.Is(err, syscall.EINVAL):
		return nil, fmt.Errorf("--socket %s: %w", c.socket, localapi.ErrSocketPath)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("no permission for %s: be root, the agent's user, or a member of its --socket-group", c.socket)
	}
	return conn, err
}

// request is a request to the agent.
type request struct {
	method, path string // the path is escaped
	query        url.Values
	body         io.Reader
	header       http.Header
}

// do sends a request. A Status of the agent is an error with its message. The caller closes the body.
func (c *client) do(ctx context.Context, r request) (*http.Response, error) {
	asked, err := http.NewRequestWithContext(ctx, r.method, "http://node"+r.path+"?"+r.query.Encode(), r.body)
	if err != nil {
		return nil, err
	}
	maps.Copy(asked.Header, r.header)
	response, err := c.http.Do(asked)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, err
	}
	if response.StatusCode < http.StatusBadRequest {
		return response, nil
	}
	defer response.Body.Close()
	return nil, failure(response)
}

// failure returns the error in a response.
func failure(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a part is better than nothing
	var status metav1.Status
	if json.Unmarshal(text, &status) == nil && status.Message != "" {
		return &statusError{status}
	}
	status.Code, status.Message = int32(response.StatusCode), fmt.Sprintf("the agent answered %s: %s", response.Status, strings.TrimSpace(string(text)))
	return &statusError{status}
}

// statusError is a Status of the agent.
type statusError struct{ metav1.Status }

func (e *statusError) Error() string { return e.Message }

// get reads an object.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	response, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

// print sends a request and prints the answer as the answer comes.
func (c *client) print(ctx context.Context, r request, out io.Writer) error {
	response, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(out, response.Body)
	return err
}

// kubectlInfo tells the command "nodeagent kubeconfig" how to reach --kubectl-port.
type kubectlInfo struct {
	Server string `json:"server"`
	CA     []byte `json:"ca"` // PEM
}

// printToken prints a token for kubectl.
func printToken(ctx context.Context, c *client, out io.Writer) error {
	return noPort(c.print(ctx, request{method: http.MethodPost, path: "/keelson/token"}, out))
}

// noPort explains the error of an agent without --kubectl-port.
func noPort(err error) error {
	if status, ok := errors.AsType[*statusError](err); ok && status.Code == http.StatusNotFound {
		return errors.New("the agent does not serve kubectl: start it with --kubectl-port PORT")
	}
	return err
}

// printKubeconfig prints a kubeconfig without secrets: kubectl gets a token from "nodeagent token".
func printKubeconfig(ctx context.Context, c *client, out io.Writer) error {
	var info kubectlInfo
	if err := c.get(ctx, "/keelson/kubectl", nil, &info); err != nil {
		return noPort(err)
	}
	program, err := os.Executable()
	if err == nil {
		c.socket, err = filepath.Abs(c.socket)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `apiVersion: v1
kind: Config
current-context: node
contexts:
- name: node
  context: {cluster: node, user: node}
clusters:
- name: node
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: node
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: %q
      args: [token, --socket, %q]
      interactiveMode: Never
      provideClusterInfo: false
`, info.Server, base64.StdEncoding.EncodeToString(info.CA), program, c.socket)
	return err
}
