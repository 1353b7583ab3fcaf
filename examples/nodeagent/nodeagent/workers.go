// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podworkers"
)

// Workers yields how far the work on each pod has come, also of those that no
// source wants any more: what is in the way of a pod that does not end is in
// WorkerInfo.LastError.
func (a *Agent) Workers() iter.Seq2[types.UID, podworkers.WorkerInfo] { return a.workers.All() }
