// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/loglinks"
)

// linkFlags configure the links to logs.
type linkFlags struct {
	dir string // or empty
}

func (l *linkFlags) register(set *pflag.FlagSet) {
	set.StringVar(&l.dir, "container-log-links", "", "folder for links to the logs of containers, named NAME_NAMESPACE_CONTAINER-ID.log, which log collectors follow; or none (default none; /var/log/containers for a program of the name kubelet with logs in /var/log/pods)")
}

// kubeletLogs and kubeletLinks are the folders of a kubelet, which log collectors know.
const kubeletLogs, kubeletLinks = "/var/log/pods", "/var/log/containers"

// complete sets the folder of links. By default, a program that replaces a kubelet and has the
// kubelet's folder of logs uses the kubelet's folder of links.
func (l *linkFlags) complete(program, logs string) (err error) {
	switch {
	case l.dir == "none" || l.dir == "" && !(isKubelet(program) && logs == kubeletLogs):
		l.dir = ""
	case l.dir == "":
		l.dir = kubeletLinks
	default:
		if l.dir, err = filepath.Abs(l.dir); err != nil {
			return fmt.Errorf("--container-log-links: %w", err)
		}
	}
	return nil
}

// linkFeatures returns the feature of the links, nil without a folder for them.
func linkFeatures(f flags, log *zap.Logger) features {
	if f.logLinks.dir == "" {
		return nil
	}
	return func(h *feature.Host) []feature.Feature {
		links, err := loglinks.New(h, loglinks.Options{Dir: f.logLinks.dir, Logs: f.logs})
		if err != nil { // the flags are checked
			log.Error("--container-log-links", zap.Error(err))
			return nil
		}
		return []feature.Feature{links}
	}
}
