// SPDX-License-Identifier: Apache-2.0

// Package imagegc removes images that nothing on the node needs, by rules that can be read before they are applied.
//
// # Wiring
//
//	gc, err := imagegc.New(imagegc.Options{
//		Images: images, // ListImages, RemoveImage
//		InUse:  inUse,  // what containers and image volumes use
//		Disk:   statfs.Path("/var/lib/containerd"),
//		Policy: imagegc.Policy{Protected: []string{"registry.k8s.io/pause"}},
//		Store:  recordfile.New("/var/lib/agent/images.json"), // optional: ages survive a restart
//		Logger: logger,
//	})
//	if err != nil {
//		return err
//	}
//	go gc.Run(ctx) // returns when ctx has ended and what it began has
//
//	lease, err := gc.Hold(ctx, "registry.example/app:1") // before a pod's images are looked for
//	...                                                  // look, pull, create the containers
//	lease.Release()
//
// Over runtime/cri the two first seams are a few lines of the caller's, for packages do not import one another:
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
//	func (i images) ImagesInUse(ctx context.Context) (out []string, err error) {
//		pods, err := i.rt.List(ctx, runtime.ListOptions{})
//		for _, pod := range pods {
//			for _, c := range pod.Containers {
//				out = append(out, cmp.Or(c.ImageID, c.ImageRef, c.Image))
//			}
//		}
//		return append(out, volumeImages()...), err
//	}
//
// That List leaves out what is no pod's. If others run containers through the same runtime, ask it for all of them.
//
// Without goroutines: call GarbageCollect, DeleteUnusedImages or Plan when it suits. Plan, the function, is what they
// decide with; it is pure, and its Decisions print as a report. Options.DryRun makes Run tell what it would do.
//
// # The caller's duties
//
//  1. Hold the images of a pod before looking whether they are there, and until its containers are created: they, or the
//     lease, are all that tells the collector of a pod that is starting. Leases that are never released hold for ever.
//  2. Implement InUse as its comment says; above all, read it from the runtime.
//  3. Protect the pause image where the runtime does not pin it (containerd before 2, by Policy.Protected), and whatever
//     else is used without a container.
//  4. Measure the file system that images are on, as it is now (package statfs).
//  5. Call DeleteUnusedImages under disk pressure, once ended containers were removed.
//  6. Repeat a pull that fails because the image was not found, if one was being removed meanwhile: it may have been the
//     same one under another name, which then fails in containerd (runtime/cri does so by itself).
//  7. Do not write to what GetImageList and AfterGC hand out.
//
// # What a lease is safe against
//
//	look ── claim ── remove ── settle      one image after the other
//	          │                  │
//	Hold ─────┘ before: kept     └───── during: Hold waits; what it sees then is true
//
// The claim of an image and the hold of a reference exclude one another. A lease that ends during a pass counts until the
// pass reads anew what is in use, so that a container it was for is seen. Names are matched as they are known from the
// last list. A reference that turns out to be an image known under another name is covered by Lease.Resolved, which says
// whether to pull again.
//
// # Who owns which goroutine
//
// Run has one goroutine of its own, for the image list, and collects in the caller's; both have ended when it returns.
// Nothing else starts any. One pass, plan or detection is at work at a time; others wait, for as long as their ctx
// allows. No lock is held while a seam or hook is called. A call of the runtime that hangs keeps passes waiting, not
// leases: of those, only the one for the image being removed.
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
//   - Images can be held, which closes the race between "is it present" and "create the container" (123631, 18140).
//   - Idle counts from the last use, or else from when the image was first seen. In the kubelet an image that was never
//     used has been idle for ever, so that it goes at once when MaxAge is set and the agent is old enough.
//   - MinAge holds in every case, also against MaxAge; the two are validated apart (132372).
//   - Whether enough was freed is measured after every removal; the kubelet adds up sizes, which count shared layers for
//     every image (68203, 92925, 120659) and are of the compressed image. Where the disk shows nothing of what
//     is removed, the pass stops instead of removing everything (116020).
//   - An image that cannot be removed keeps neither the other ones nor the collection for space from being tried.
//   - A pass that begins above HighPercent frees to LowPercent, also when MaxAge alone has got it below HighPercent.
//   - AfterGC gets every image that is there, after each pass. The kubelet's hook is told those that it tried in vain,
//     so that the pull records of images that are there are dropped and everybody may use them.
//   - Images are matched by ID, digest and tag, in all their spellings; a container that reports nothing but
//     repo@sha256:… keeps its image (81756, 106037, 111796). Images with several names are one.
//   - What is in use is read again every few removals; a container that vanishes meanwhile is InUse's affair.
//   - Any image can be protected (68930, 103255).
//   - Ages may survive a restart (119642).
//   - Each image of a pass that stays has a reason, and errors are typed (71869, 15564).
//   - A collection that failed for want of age is repeated when the first image is old enough.
//   - RemoveImage gets the whole image, with its handler.
//
// Thresholds, defaults, the measure of usage, what counts as a candidate, the order of the node status, and the reasons of
// events are those of the kubelet. With HighPercent 100 and no MaxAge nothing is collected by Run.
//
// # Signatures that are better than the contract's
//
//   - Hold takes a ctx, because it may have to wait for a removal; any number of references, because a pod has several;
//     and returns a Lease, which can be told what image a reference was.
//   - The zero Policy is the kubelet's and not one that removes everything.
//   - RemoveImage gets the Image. Size is unsigned, as in CRI.
//   - AfterGC returns an error, which is joined.
//   - Result has lists in order, with details, instead of a map; Decisions is what was decided.
package imagegc
