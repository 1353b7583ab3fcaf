// SPDX-License-Identifier: Apache-2.0

package oomwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
)

// Name is the name of the feature.
const Name = "oomwatch"

// Reason is the reason of the event, as in the kubelet.
const Reason = "SystemOOM"

// maxRecord is the size of the largest record of the kernel's log, in bytes.
const maxRecord = 8 << 10

// kernelLog is the file with the kernel's log.
const kernelLog = "/dev/kmsg"

// Feature makes the watch a feature of the node named nodeName, for node.Options.Features.
func Feature(h *feature.Host, nodeName string) feature.Feature {
	return feature.Feature{Name: Name, Run: func(ctx context.Context) error {
		node := feature.NodeReference(nodeName)
		err := follow(ctx, kernelLog, func(v Victim) {
			h.Log.Warn("the machine has no memory left: the kernel has killed a process", zap.String("process", v.Process), zap.Int("pid", v.PID))
			h.Events.Event(node, v1.EventTypeWarning, Reason, fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", v.Process, v.PID))
		})
		if ctx.Err() == nil {
			h.Log.Warn("processes that the kernel kills for lack of memory are not reported as events of the node", zap.Error(err))
		}
		return nil
	}}
}

// follow reports the victims in new records of the log, until ctx ends.
func follow(ctx context.Context, path string, report func(Victim)) error {
	log, err := os.Open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = log.Close() })() // ends a Read that waits for a record
	return read(log, report)
}

// read reports the victims in the records of a log until the log ends. Each Read returns one record.
func read(log io.Reader, report func(Victim)) error {
	record := make([]byte, maxRecord)
	for {
		n, err := log.Read(record)
		switch {
		case err == nil:
		case errors.Is(err, syscall.EPIPE): // records were overwritten before they were read
			continue
		default:
			return err
		}
		if v, ok := Parse(string(record[:n])); ok {
			report(v)
		}
	}
}
