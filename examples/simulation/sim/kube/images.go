// SPDX-License-Identifier: Apache-2.0

package kube

import "github.com/keelson-dev/keelson/examples/simulation/sim"

// The bounds of the sizes that ImageLocality considers: the upper bound is for each container.
const (
	minImageSize = 23 << 20
	maxImageSize = 1000 << 20
)

// ImageLocality prefers nodes with the images of the pod. An image counts by the share of nodes that
// have it, so a rare image does not attract all its pods to a single node.
type ImageLocality struct{}

// Name implements sim.Plugin.
func (ImageLocality) Name() string { return "ImageLocality" }

// PreScore implements sim.PreScore.
func (ImageLocality) PreScore(c *sim.Cycle, _ []*sim.Node) *sim.Status {
	for _, image := range c.Pod.Shape.Images {
		if c.Snapshot.NodesWith(image) > 0 {
			return nil
		}
	}
	return sim.NewStatus(sim.Skip)
}

// Score implements sim.Score.
func (ImageLocality) Score(c *sim.Cycle, n *sim.Node) int64 {
	nodes := float64(len(c.Snapshot.Nodes()))
	sum := int64(0)
	for _, image := range c.Pod.Shape.Images {
		if size, has := n.Images[image]; has {
			sum += int64(float64(size) * (float64(c.Snapshot.NodesWith(image)) / nodes))
		}
	}
	most := int64(maxImageSize) * int64(len(c.Pod.Shape.Images))
	return 100 * (min(max(sum, minImageSize), most) - minImageSize) / (most - minImageSize)
}
