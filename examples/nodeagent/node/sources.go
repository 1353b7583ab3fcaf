// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/internal/failurelog"
	"github.com/keelson-dev/keelson/podconfig"
)

const sourceFailed = "configuration source failed; it is started again"

// SourceWrapper is an optional ability of a Source that passes on the pods of another Source. The node
// runs the inner Source again after a failure, and a failure of the wrapper ends the node.
type SourceWrapper interface {
	// WrapSource replaces the inner Source by the result of wrap. It is called before Run.
	WrapSource(wrap func(podconfig.Source) podconfig.Source)
}

// retrySources returns the sources, run again after failures. The failures are logged.
func retrySources(sources []podconfig.Source, log *zap.Logger) (all []podconfig.Source) {
	var wrap func(s podconfig.Source) podconfig.Source
	wrap = func(s podconfig.Source) podconfig.Source {
		if w, ok := s.(SourceWrapper); ok {
			w.WrapSource(wrap)
			return s
		}
		about := zap.String("source", s.Name())
		return podconfig.Retry(s, func(err error, again time.Duration) {
			if err == nil {
				log.Info("configuration source works again", about, failurelog.Ends(sourceFailed))
				return
			}
			log.Warn(sourceFailed, about, zap.Duration("again", again.Round(time.Second)), zap.Error(err))
		})
	}
	for _, s := range sources {
		all = append(all, wrap(s))
	}
	return all
}
