// SPDX-License-Identifier: Apache-2.0

// Package loglinks keeps a folder of links to the logs of containers for log collectors, as the kubelet
// (1.36) does in /var/log/containers: NAME_NAMESPACE_CONTAINER-ID.log.
//
//	links, err := loglinks.New(host, loglinks.Options{Dir: "/var/log/containers", Logs: logDir})
//
// The function node.Options.Features receives the host, and returns links.
//
// A container has a link from its creation until its record is removed. Broken links to logs of the
// node are removed at the start and after each change. All other files in the folder stay.
//
// # Differences from the kubelet
//
//   - The link of a container is removed with the container's record, even if the log stays for a
//     while.
//   - The folder of links is an option. Whatever the runtime reports, a link leads to a file in the
//     folder of logs, and its name stays in the folder of links.
package loglinks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/internal/missing"
	"github.com/keelson-dev/keelson/internal/retry"
	"github.com/keelson-dev/keelson/internal/signal"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/runtime/podstatus"
	"github.com/keelson-dev/keelson/runtime/podsync"
)

// Options configure the feature.
type Options struct {
	// Dir is the folder of links, usually /var/log/containers. It is created with mode 0755. Required.
	Dir string
	// Logs is the folder of logs, node.Options.LogDir. Required.
	Logs string
}

// New returns the feature. Errors name the field.
func New(h *feature.Host, o Options) (feature.Feature, error) {
	for field, path := range map[string]string{"Dir": o.Dir, "Logs": o.Logs} {
		if !filepath.IsAbs(path) {
			return feature.Feature{}, fmt.Errorf("loglinks: Options.%s %q: want an absolute path", field, path)
		}
	}
	l := &links{Options: o, pods: feature.NewSlot[[]link](h.Table), changed: signal.New(), failures: failurelog.Log{Logger: h.Log, Failed: "could not link the logs of containers", Recovered: "the logs of containers are linked again"}}
	return feature.Feature{
		Name: "log-links",
		Hook: podsync.Hook{Input: func(pod *v1.Pod, in *podstatus.Input) {
			if in.Observed != nil {
				l.pods.Set(pod.UID, linksOf(l.Logs, in.Observed))
				l.changed.Notify()
			}
		}},
		ConfigUpdated: func(podconfig.Update) { l.changed.Notify() },
		Ended:         func(*v1.Pod) { l.changed.Notify() },
		Housekeep:     func(func(types.UID) bool) { l.changed.Notify() }, // logs may have been removed
		Run:           l.run,
	}, nil
}

// links keeps the folder.
type links struct {
	Options
	pods     *feature.Slot[[]link]
	changed  signal.Signal
	failures failurelog.Log
}

// pause bounds the passes through the folder. Collectors look for new files about as often.
const pause = time.Second

func (l *links) run(ctx context.Context) error {
	for {
		l.failures.Report(l.pass())
		if retry.Sleep(ctx, pause) != nil {
			return nil
		}
		select {
		case <-l.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// pass removes and makes links as needed. After an error, the next change leads to another pass.
func (l *links) pass() error {
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		return err
	}
	dir, err := os.OpenRoot(l.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	have, err := l.list(dir)
	if err != nil {
		return err
	}
	remove, create := changes(l.Logs, have, maps.Collect(l.pods.All()))
	var errs []error
	for _, name := range remove {
		errs = append(errs, missing.Ignore(dir.Remove(name)))
	}
	for _, c := range create {
		errs = append(errs, dir.Symlink(c.target, c.name))
	}
	return errors.Join(errs...)
}

// list returns the content of the folder. A file that is no link is present without a target.
func (l *links) list(dir *os.Root) (all []present, err error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		p := present{link: link{name: e.Name()}}
		if target, err := dir.Readlink(e.Name()); err == nil {
			p.target = target
			_, err := os.Lstat(target)
			p.broken = errors.Is(err, fs.ErrNotExist)
		}
		all = append(all, p)
	}
	return all, nil
}
