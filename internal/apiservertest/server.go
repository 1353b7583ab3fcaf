// SPDX-License-Identifier: Apache-2.0

package apiservertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// startTimeout is generous: a start takes some seconds on an idle machine.
const startTimeout = 3 * time.Minute

// Options configure a Server. The zero value is usable.
type Options struct {
	// Dir is the folder with kube-apiserver, etcd and kubectl. Defaults to
	// $KEELSON_APISERVER_DIR.
	Dir string
	// Flags are appended to the flags of kube-apiserver, and replace flags of the same name:
	// "--watch-cache=false".
	Flags []string
	// Address is an IPv4 address of this machine where pods reach the server as the service
	// kubernetes, at the first address of the range 10.0.0.0/24. The server then listens on all
	// addresses. Defaults to a server on loopback only, without that service's endpoints.
	Address net.IP
	// Controllers also starts kube-controller-manager and kube-scheduler, which must be in Dir, and
	// gives pods a service account. Defaults to a server without controllers.
	Controllers bool
	// ManagerFlags are more flags of kube-controller-manager.
	ManagerFlags []string
}

// Server is a running kube-apiserver with its etcd. Methods may be called at any time and from
// several goroutines. Calls that start and stop processes wait for each other.
type Server struct {
	// URL is the address of the server during its whole life: https://127.0.0.1:….
	URL string
	// EtcdURL is where etcd is, without any authentication: http://127.0.0.1:….
	EtcdURL string

	options  Options
	binaries binaries
	folder   folder
	identity identity
	token    string
	secure   port // of kube-apiserver
	clients  port // of etcd
	http     *http.Client

	mu struct {
		sync.Mutex
		etcd, apiserver *process // nil before the first start
		controllers     []*process
		stopped         bool
	}
}

// Start starts a server for one test and removes the server at the end of the test. If the test has
// failed, the ends of its logs are printed.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := New(t.Context(), opts)
	failOrSkip(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.LogTail())
		}
		if err := s.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	return s
}

// New starts a server and waits until the server is ready. The caller must call Stop. An
// [ErrUnavailable] means that the machine cannot run an API server. After any error nothing is left
// behind.
func New(ctx context.Context, opts Options) (*Server, error) {
	var controllers []string
	if opts.Controllers {
		controllers = slices.Sorted(maps.Keys(controllerFlags(folder{}, nil)))
		opts.Flags = append([]string{"--disable-admission-plugins="}, opts.Flags...)
	}
	if opts.Address != nil {
		opts.Flags = append([]string{"--bind-address=0.0.0.0", "--advertise-address=" + opts.Address.String(), "--endpoint-reconciler-type=lease"}, opts.Flags...)
	}
	b, err := findBinaries(cmp.Or(opts.Dir, os.Getenv(DirVariable)), controllers...)
	if err != nil {
		return nil, err
	}
	s := &Server{options: opts, binaries: b, token: newToken()}
	err = s.prepare()
	if err == nil {
		err = s.Restart(ctx)
	}
	if err == nil {
		err = s.startControllers()
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// addresses returns the addresses of the server besides 127.0.0.1.
func (o Options) addresses() []net.IP {
	if o.Address == nil {
		return nil
	}
	return []net.IP{o.Address, net.IPv4(10, 0, 0, 1)}
}

// prepare reserves the ports and writes the files of the servers.
func (s *Server) prepare() error {
	var errs [4]error
	s.folder, errs[0] = makeFolder(os.TempDir())
	s.identity, errs[1] = newIdentity(s.options.addresses()...)
	s.secure, errs[2] = reservePort()
	s.clients, errs[3] = reservePort()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	s.URL, s.EtcdURL = "https://"+s.secure.String(), "http://"+s.clients.String()
	s.http = newHTTPClient(s.identity)
	return errors.Join(
		os.WriteFile(s.folder.file("tls.crt"), s.identity.certPEM, 0o600),
		os.WriteFile(s.folder.file("tls.key"), s.identity.keyPEM, 0o600),
		os.WriteFile(s.folder.file("tokens.csv"), tokensFile(s.token), 0o600),
		writeKubeconfig(s.Kubeconfig(), s.Config()),
	)
}

// PID returns the process ID of kube-apiserver, for signals such as SIGSTOP, or 0 without a running
// process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.apiserver == nil {
		return 0
	}
	return s.mu.apiserver.pid
}

// Kill kills kube-apiserver like a crash, and returns when the process is gone. Connections are
// reset and new connections refused.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killLocked()
}

func (s *Server) killLocked() error {
	err := s.mu.apiserver.kill()
	if err == nil {
		s.mu.apiserver = nil
	}
	return err
}

// Restart kills kube-apiserver if running, and starts kube-apiserver again at the same URL with the
// same data. It waits for at most three minutes until the server is ready.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return errors.New("the server has been stopped")
	}
	if err := s.killLocked(); err != nil {
		return err
	}
	if err := s.launchLocked(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.waitReady(ctx, s.mu.etcd.exited, s.mu.apiserver.exited); err != nil {
		return fmt.Errorf("wait for the API server: %w\n%s", err, s.LogTail())
	}
	return nil
}

// launchLocked starts the missing processes, without waiting until they are ready.
func (s *Server) launchLocked() (err error) {
	if s.mu.etcd == nil {
		s.mu.etcd, err = launch(s.binaries.etcd, etcdFlags(s.folder, s.clients), s.etcdLog())
		if err != nil {
			return err
		}
	}
	s.mu.apiserver, err = launch(s.binaries.apiserver, apiserverFlags(s.folder, s.secure, s.clients, s.options.Flags), s.apiserverLog())
	return err
}

// startControllers starts the controllers. They connect again after a restart of the API server.
func (s *Server) startControllers() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	flags := controllerFlags(s.folder, s.options.ManagerFlags)
	for name, program := range s.binaries.controllers {
		started, err := launch(program, flags[name], s.folder.file(name+".log"))
		if err != nil {
			return err
		}
		s.mu.controllers = append(s.mu.controllers, started)
	}
	return nil
}

// Stop ends all processes at once and removes their folder. A second Stop does
// nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return nil
	}
	s.mu.stopped = true
	var errs []error
	for _, controller := range s.mu.controllers {
		errs = append(errs, controller.kill())
	}
	errs = append(errs, s.killLocked(), s.mu.etcd.kill(), s.secure.release(), s.clients.release(), s.folder.remove())
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
	return errors.Join(errs...)
}

func (s *Server) etcdLog() string      { return s.folder.file("etcd.log") }
func (s *Server) apiserverLog() string { return s.folder.file("kube-apiserver.log") }

// LogTail returns the last lines of the logs of all processes.
func (s *Server) LogTail() string {
	text := fmt.Sprintf("the end of etcd's log:\n%sthe end of kube-apiserver's log:\n%s",
		tail(s.etcdLog()), tail(s.apiserverLog()))
	for _, name := range slices.Sorted(maps.Keys(s.binaries.controllers)) {
		text += fmt.Sprintf("the end of the log of %s:\n%s", name, tail(s.folder.file(name+".log")))
	}
	return text
}
