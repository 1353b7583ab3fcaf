// SPDX-License-Identifier: Apache-2.0

// Package imagegc removes images that the node does not need, and can report its decisions before
// applying them.
//
// # Wiring
//
//	gc, err := imagegc.New(imagegc.Options{
//		Images: images, // ListImages, RemoveImage
//		InUse:  inUse,  // reports the images of containers and image volumes
//		Disk:   statfs.Path("/var/lib/containerd"),
//		Policy: imagegc.Policy{Protected: []string{"registry.k8s.io/pause"}},
//		Store:  recordfile.New("/var/lib/agent/images.json"), // optional: ages survive a restart
//		Logger: logger,
//	})
//	if err != nil {
//		return err
//	}
//	go gc.Run(ctx) // returns after the end of ctx and of all its goroutines
//
//	lease, err := gc.Hold(ctx, "registry.example/app:1") // before checking for a pod's images
//	...                                                  // check, pull, create the containers
//	lease.Release()
//
// A cri.Backend of runtime/cri implements InUse. It reports the images of all containers of the
// runtime, including containers outside any pod. The caller adapts ImageService in a few lines,
// because packages do not import each other:
//
//	type images struct{ rt cri.Backend }
//
//	func (i images) ListImages(ctx context.Context) (out []imagegc.Image, err error) {
//		list, err := i.rt.ListImages(ctx)
//		for _, m := range list {
//			out = append(out, imagegc.Image{ID: m.ID, RepoTags: m.RepoTags, RepoDigests: m.RepoDigests, Size: m.Size, Pinned: m.Pinned})
//		}
//		return out, err
//	}
//	func (i images) RemoveImage(ctx context.Context, m imagegc.Image) error { return i.rt.RemoveImage(ctx, m.ID) }
//
// For a backend without ImagesInUse, call PodStatus for each pod, because List may leave out the
// images. The following adapter misses containers outside any pod:
//
//	func imagesInUse(ctx context.Context, rt runtime.Runtime) (out []string, err error) {
//		pods, err := rt.List(ctx, runtime.ListOptions{})
//		for _, listed := range pods {
//			pod, err := rt.PodStatus(ctx, listed.UID)
//			if err != nil {
//				return nil, err
//			}
//			for _, c := range pod.Containers {
//				out = append(out, cmp.Or(c.ImageID, c.ImageRef, c.Image))
//			}
//		}
//		return append(out, volumeImages()...), err
//	}
//
// To collect without goroutines, call the methods GarbageCollect, DeleteUnusedImages or Plan
// directly. All three decide with the pure function Plan. Its Decisions print as a report. With
// Options.DryRun, Run only reports its decisions.
//
// # The caller's duties
//
//  1. Hold the images of a pod before checking whether they are present, and until its containers
//     are created. The collector knows of a starting pod only through its lease and its containers.
//     A lease without a Release holds its images forever.
//  2. Implement InUse as documented there. Above all, read the images in use from the runtime.
//  3. Measure the current usage of the image file system (package statfs).
//
// Do not modify the slices from GetImageList or Result.Present.
//
// # Duties of some callers
//
//   - If the runtime does not pin the pause image (containerd before 2), or other images are used
//     without a container: name the images in Policy.Protected.
//   - If there is an eviction manager: call DeleteUnusedImages under disk pressure, after removing
//     ended containers.
//   - Repeat a pull that fails with "image not found" if a removal ran at the same time. The
//     removed image may have been the same image under another name, which makes the pull fail in
//     containerd. runtime/cri repeats such a pull by itself.
//
// # What a lease protects against
//
//	look ── claim ── remove ── settle      one image after the other
//	          │                  │
//	Hold ─────┘ before: kept     └───── during: Hold waits, then the image is gone or stays
//
// A claim on an image and a hold on its reference exclude each other. A lease released during a
// pass counts until the pass reads the images in use again, so that the pass sees the new
// containers. Names are matched against the last image list. Lease.Resolved covers a reference to
// an image listed under another name, and reports whether to pull again.
//
// # Goroutines
//
// Run starts one goroutine for the image list and collects in the caller's goroutine. Both have
// ended when Run returns. No other method starts a goroutine. Only one pass, plan or detection runs
// at a time; further calls wait until their ctx ends. No lock is held during a call to a seam or
// hook. A runtime call without an answer delays passes, and it delays a lease only if the call
// removes an image of the lease.
//
// # Life of an image
//
//	       first list                needed                       claim
//	(new) ───────────▶ too young ─┬──────────▶ in use, held ◀─┐  ┌──────▶ removed
//	                              │ MinAge                     │  │
//	                              └──────────▶ idle ───────────┴──┘
//	                                  since max(LastUsed, FirstDetected)
//
// # Differences from the kubelet (1.36)
//
//   - Images can be held, which closes the race between checking for an image and creating the
//     container (123631, 18140).
//   - Idle time counts from the last use, or from the first detection of a never used image. The
//     kubelet treats a never used image as idle forever, and removes it at once when MaxAge is set
//     and the agent is old enough.
//   - MinAge always applies, also against MaxAge. Both are validated separately (132372).
//   - The freed space is measured after every removal. The kubelet adds up image sizes, which count
//     shared layers for every image (68203, 92925, 120659) and describe the compressed image. If
//     the disk shows no effect of the removals, the pass stops instead of removing everything
//     (116020).
//   - After a failed removal, the pass tries the remaining images and still collects for space.
//   - A pass that begins above HighPercent frees down to LowPercent, even if removals for MaxAge
//     alone have reached a value below HighPercent.
//   - Result.Present has every image present after the pass. The kubelet's hook receives only the
//     images with failed removals, which drops the pull records of all present images and lets any
//     pod use them.
//   - Images match by ID, digest and tag in every spelling. A container that reports only
//     repo@sha256:… keeps its image (81756, 106037, 111796). An image with several names is a
//     single image.
//   - Images in use are read again every few removals. InUse must tolerate a container that
//     vanishes meanwhile.
//   - Policy.Protected protects any image (68930, 103255).
//   - A Store keeps ages across a restart (119642).
//   - Every image kept by a pass has a reason, and errors are typed (71869, 15564).
//   - A collection that found its candidates too young is repeated when the first candidate is old
//     enough.
//   - RemoveImage receives the whole image with its handler.
//
// Thresholds, defaults, the measure of usage, the choice of candidates, the order of the node
// status and the reasons of events match the kubelet. With HighPercent 100 and no MaxAge, Run
// collects nothing.
//
// # Improved signatures
//
//   - Hold takes a ctx, because it may wait for a removal. It takes any number of references,
//     because a pod has several. It returns a Lease, whose Resolved method receives the image ID of
//     a reference.
//   - The zero Policy is the kubelet's policy; it does not remove everything.
//   - RemoveImage receives the Image. Size is unsigned, as in CRI.
//   - Result has ordered lists with details instead of a map. Decisions holds the outcome of Plan.
package imagegc
