// SPDX-License-Identifier: Apache-2.0

// Package stats describes the resource usage of running pods, as measured by a container runtime.
// The backends process, cri and fake implement Reader.
//
//	reader, ok := rt.(stats.Reader)
//	if !ok {
//		return errors.ErrUnsupported
//	}
//	pods, err := reader.ListStats(ctx)
//
// CPU usage is a counter. Two measurements of the same container give the rate.
//
// # Differences from the kubelet (1.36)
//
// The kubelet's Summary API is a JSON document of the whole node. This package has only the figures
// of the container runtime: file systems of volumes and the node's own usage are missing.
package stats
