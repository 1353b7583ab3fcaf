// SPDX-License-Identifier: Apache-2.0

package emptydir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/podfacts"
	"github.com/keelson-dev/keelson/internal/podresources"
	"github.com/keelson-dev/keelson/internal/quantities"
	"github.com/keelson-dev/keelson/internal/sorted"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

// ErrUnsupported reports that the node or the agent cannot provide the medium.
var ErrUnsupported = errors.New("not supported on this node")

// request returns the mount request for the medium; nil for a folder on the disk.
func (p *Plugin) request(m volumemanager.Mount, want *v1.EmptyDirVolumeSource) (*mount.Request, error) {
	if want.Medium == v1.StorageMediumDefault {
		return nil, nil
	}
	if err := CheckMedium(m.Pod, want.Medium); err != nil {
		return nil, volumemanager.Terminal(err)
	}
	if _, none := p.options.Mounter.(mount.None); none {
		return nil, volumemanager.Terminal(fmt.Errorf("medium %q: %w: %w", want.Medium, ErrUnsupported, mount.ErrUnsupported))
	}
	r := &mount.Request{Target: m.Dir(), Source: tmpfs, Type: tmpfs}
	mode := fmt.Sprintf("mode=%#o", startMode)
	if want.Medium == v1.StorageMediumMemory {
		if size := memorySize(m.Pod, want.SizeLimit, p.options.AllocatableMemory()); size > 0 {
			r.Options = append(r.Options, "size="+strconv.FormatInt(size, 10))
		}
		r.Options = append(r.Options, mode)
		return r, nil
	}
	page, err := pageSize(m.Pod, want.Medium)
	if err != nil {
		return nil, volumemanager.Terminal(err)
	}
	if err := p.hasPages(page); err != nil {
		return nil, volumemanager.Terminal(err)
	}
	r.Source, r.Type = "nodev", hugetlbfs
	r.Options = []string{"pagesize=" + strconv.FormatInt(page.Value(), 10), mode}
	return r, nil
}

// memorySize returns the smallest limit in bytes; 0 without a limit.
func memorySize(pod *v1.Pod, limit *resource.Quantity, allocatable resource.Quantity) int64 {
	sizes := []int64{quantities.Value(allocatable), podresources.OfPod(pod).MemoryLimit}
	if limit != nil {
		sizes = append(sizes, quantities.Value(*limit))
	}
	sizes = slices.DeleteFunc(sizes, func(n int64) bool { return n <= 0 })
	if len(sizes) == 0 {
		return 0
	}
	return slices.Min(sizes)
}

// CheckMedium returns an error if a pod can never have an emptyDir of the medium: the medium is
// unknown, or the pod requests no huge pages for it.
func CheckMedium(pod *v1.Pod, medium v1.StorageMedium) error {
	switch {
	case medium == v1.StorageMediumDefault, medium == v1.StorageMediumMemory:
		return nil
	case !isHugePages(medium):
		return fmt.Errorf("unknown medium %q", medium)
	}
	_, err := pageSize(pod, medium)
	return err
}

// pageSize returns the page size of a medium. The pod must request pages of this size. A medium
// without a size requires that the pod requests a single size.
func pageSize(pod *v1.Pod, medium v1.StorageMedium) (resource.Quantity, error) {
	requested := requestedPages(pod)
	size, sized := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	switch {
	case sized:
		want, err := resource.ParseQuantity(size)
		if err != nil || want.Sign() <= 0 {
			return resource.Quantity{}, fmt.Errorf("medium %q: no page size", medium)
		}
		if !slices.ContainsFunc(requested, func(q resource.Quantity) bool { return q.Cmp(want) == 0 }) {
			return resource.Quantity{}, fmt.Errorf("medium %q: the pod requests no pages of that size", medium)
		}
		return want, nil
	case len(requested) == 1:
		return requested[0], nil
	case len(requested) == 0:
		return resource.Quantity{}, fmt.Errorf("medium %q: the pod requests no huge pages", medium)
	}
	return resource.Quantity{}, fmt.Errorf("medium %q: the pod requests pages of several sizes", medium)
}

// requestedPages returns the page sizes in the pod's requests and limits, ascending.
func requestedPages(pod *v1.Pod) []resource.Quantity {
	var all []resource.Quantity
	add := func(l v1.ResourceList) {
		for name, amount := range l {
			size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if q, err := resource.ParseQuantity(size); ok && err == nil && q.Sign() > 0 && !amount.IsZero() {
				all = append(all, q)
			}
		}
	}
	for c := range podfacts.Containers(&pod.Spec) {
		add(c.Resources.Requests)
		add(c.Resources.Limits)
	}
	if pod.Spec.Resources != nil {
		add(pod.Spec.Resources.Requests)
		add(pod.Spec.Resources.Limits)
	}
	sorted.By(all, func(a, b resource.Quantity) int { return a.Cmp(b) })
	return slices.CompactFunc(all, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

// hasPages returns an error unless the node has reserved pages of the size.
func (p *Plugin) hasPages(size resource.Quantity) error {
	name := fmt.Sprintf("hugepages-%dkB/nr_hugepages", size.Value()>>10)
	data, err := os.ReadFile(filepath.Join(p.hugePages, name))
	if err != nil {
		return fmt.Errorf("huge pages of %s: %w", size.String(), ErrUnsupported)
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err != nil || n <= 0 {
		return fmt.Errorf("huge pages of %s: the node has set none aside: %w", size.String(), ErrUnsupported)
	}
	return nil
}

// samePages returns an error if the page size of the mount differs from the requested size.
func samePages(info mount.Info, r *mount.Request) error {
	if r.Type != hugetlbfs {
		return nil
	}
	want, _ := strings.CutPrefix(r.Options[0], "pagesize=")
	for option := range strings.SplitSeq(info.FSOptions, ",") {
		if have, ok := strings.CutPrefix(option, "pagesize="); ok && bytesOf(have) != want {
			return volumemanager.Terminal(fmt.Errorf("huge pages of %s are mounted at its folder, not of %s bytes", have, want))
		}
	}
	return nil
}

// bytesOf converts a size with a unit of the kernel to bytes: "2M" becomes "2097152".
func bytesOf(size string) string {
	shift := map[byte]uint{'K': 10, 'M': 20, 'G': 30}
	last := len(size) - 1
	if last < 1 || shift[size[last]] == 0 {
		return size
	}
	n, err := strconv.ParseInt(size[:last], 10, 64)
	if err != nil {
		return size
	}
	return strconv.FormatInt(n<<shift[size[last]], 10)
}
