// SPDX-License-Identifier: Apache-2.0

package podresources_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podresources"
)

// The sums of pods and the values of containers have their tests in runtime/cri.
func TestOverheadIsAddedToLimitsThatAreSet(t *testing.T) {
	overhead := v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("10")}
	d := podresources.Demand{CPURequest: 100, MemoryRequest: 5, MemoryLimit: 20}
	assert.Equal(t, podresources.Demand{CPURequest: 350, MemoryRequest: 15, MemoryLimit: 30}, d.WithOverhead(overhead))
	assert.Equal(t, d, d.WithOverhead(nil))
}
