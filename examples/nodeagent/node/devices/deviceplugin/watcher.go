// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices"
	"github.com/keelson-dev/keelson/internal/grpcunix"
	"github.com/keelson-dev/keelson/internal/retry"
)

// Type is the type of device plug-ins in the folder of a Watcher.
const Type = registration.DevicePlugin

// Times of a Watcher, as in the kubelet (1.36).
const (
	infoTimeout   = time.Second
	notifyTimeout = 5 * time.Second
	minPause      = 500 * time.Millisecond
	maxPause      = 122 * time.Second
	scanPeriod    = 30 * time.Second
)

// Handler serves the plug-ins of one type.
type Handler interface {
	// Validate returns an error for a plug-in that the node cannot use. The plug-in receives the
	// text of the error.
	Validate(name string, versions []string) error
	// Serves connects to the plug-in at a socket, calls isReady once, and uses the plug-in until ctx
	// or the connection ends. The cause of ctx is devices.ErrUnregistered if the plug-in's socket was
	// removed.
	Serves(ctx context.Context, name, socket string, isReady func()) error
}

// Hinter reports changes of a folder. fsnotify.Hinter of podconfig/file implements it.
type Hinter interface {
	Hints(ctx context.Context, path string) (<-chan struct{}, error)
}

// WatcherOptions configure a Watcher.
type WatcherOptions struct {
	// Hinter reports changes of the folder. Required.
	Hinter Hinter
	// Handlers serve plug-ins, by type. Plug-ins of other types are refused. Required.
	Handlers map[string]Handler
	// Logger receives the log. Defaults to none.
	Logger *zap.Logger
}

// Watcher registers plug-ins with a socket in a folder, and unregisters a plug-in when its socket is
// removed or replaced.
type Watcher struct {
	dir  string
	opts WatcherOptions

	known map[string]*socket // by path; used by Run only
	wait  sync.WaitGroup
}

// socket is a socket in the folder.
type socket struct {
	id   identity
	stop context.CancelCauseFunc
}

// identity tells a socket from a later socket at the same path.
type identity struct {
	inode uint64
	made  int64 // time of the last change, in nanoseconds
}

// NewWatcher makes the folder dir and returns its Watcher.
func NewWatcher(dir string, o WatcherOptions) (*Watcher, error) {
	switch {
	case !filepath.IsAbs(dir):
		return nil, fmt.Errorf("deviceplugin: folder %q: want an absolute path", dir)
	case o.Hinter == nil:
		return nil, errors.New("deviceplugin: WatcherOptions.Hinter is required")
	case len(o.Handlers) == 0:
		return nil, errors.New("deviceplugin: WatcherOptions.Handlers is required")
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("deviceplugin: %w", err)
	}
	return &Watcher{dir: dir, opts: o, known: map[string]*socket{}}, nil
}

// Run registers plug-ins until ctx has ended and all connections to plug-ins are closed. It can be
// called once. The folder is read after each hint, and every 30 seconds for sockets in its
// subfolders.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.wait.Wait()
	var hints <-chan struct{}
	tick := time.NewTicker(scanPeriod)
	defer tick.Stop()
	for {
		if hints == nil {
			var err error
			if hints, err = w.opts.Hinter.Hints(ctx, w.dir); err != nil {
				w.opts.Logger.Warn("folder of plug-ins is read periodically only", zap.String("folder", w.dir), zap.Error(err))
			}
		}
		w.scan(ctx)
		select {
		case _, ok := <-hints:
			if !ok {
				hints = nil
			}
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// scan registers new sockets and unregisters removed ones.
func (w *Watcher) scan(ctx context.Context) {
	found := map[string]identity{}
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // removed meanwhile
		case path != w.dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.Type()&fs.ModeSocket == 0:
			return nil
		}
		if info, err := d.Info(); err == nil {
			found[path] = identityOf(info)
		}
		return nil
	})
	if err != nil {
		w.opts.Logger.Warn("folder of plug-ins cannot be read", zap.Error(err))
		return
	}
	for path, s := range w.known {
		if id, ok := found[path]; !ok || id != s.id {
			s.stop(devices.ErrUnregistered)
			delete(w.known, path)
		}
	}
	for path, id := range found {
		if w.known[path] != nil {
			continue
		}
		follow, stop := context.WithCancelCause(ctx)
		w.known[path] = &socket{id, stop}
		w.wait.Go(func() {
			defer stop(nil)
			w.follow(follow, path)
		})
	}
}

func identityOf(info fs.FileInfo) identity {
	id := identity{made: info.ModTime().UnixNano()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		id.inode = s.Ino
	}
	return id
}

// follow registers the plug-in at a socket, again after failures, until ctx ends.
func (w *Watcher) follow(ctx context.Context, path string) {
	for pause := minPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		isReady, err := w.register(ctx, path)
		if ctx.Err() != nil {
			return
		}
		w.opts.Logger.Warn("plug-in is not registered", zap.String("socket", path), zap.Error(err))
		if isReady {
			pause = minPause
		}
		if retry.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// register registers the plug-in at a socket, and returns when the connection has ended. isReady
// reports whether the registration succeeded.
func (w *Watcher) register(ctx context.Context, path string) (isReady bool, err error) {
	conn, err := grpcunix.NewClient(path, maxMessage)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	api := registration.NewRegistrationClient(conn)
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	info, err := api.GetInfo(limited, &registration.InfoRequest{}, grpc.WaitForReady(true))
	cancel()
	if err != nil {
		return false, fmt.Errorf("GetInfo: %w", err)
	}
	notify := func(err error) error {
		status := &registration.RegistrationStatus{PluginRegistered: err == nil}
		if err != nil {
			status.Error = err.Error()
		}
		limited, cancel := context.WithTimeout(ctx, notifyTimeout)
		defer cancel()
		_, failed := api.NotifyRegistrationStatus(limited, status)
		return failed
	}
	handler, known := w.opts.Handlers[info.Type]
	if !known {
		err = fmt.Errorf("plug-ins of type %q are not supported", info.Type)
	} else {
		err = handler.Validate(info.Name, info.SupportedVersions)
	}
	if err == nil {
		endpoint := cmp.Or(info.Endpoint, path)
		serving, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		err = handler.Serves(serving, info.Name, endpoint, func() {
			isReady = true
			if err := notify(nil); err != nil {
				stop(fmt.Errorf("NotifyRegistrationStatus: %w: %w", err, devices.ErrUnregistered))
			}
		})
	}
	if !isReady && ctx.Err() == nil {
		err = errors.Join(err, notify(err))
	}
	return isReady, err
}
