// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/imagegc"
	"github.com/keelson-dev/keelson/runtime/pullrecords"
)

// neverVerify is the kubelet's policy without records of pulls.
const neverVerify = "NeverVerify"

// verifyFlags decide which pods may use an image that is on the node. Names and meaning are those of the fields of the
// kubelet's configuration (1.36).
type verifyFlags struct {
	policy string
	allow  []string
}

func (v *verifyFlags) register(set *pflag.FlagSet) {
	set.StringVar(&v.policy, "image-pull-credentials-verification-policy", string(pullrecords.NeverVerifyPreloadedImages),
		"with a container runtime or --images: which images on the node need no pull for a pod, as a `policy`: those that could be pulled with the pod's credentials, and images that this agent has not pulled "+
			"(NeverVerifyPreloadedImages), only some of the latter (NeverVerifyAllowlistedImages), none of the latter (AlwaysVerify), or all images (NeverVerify)")
	set.StringSliceVar(&v.allow, "preloaded-images-verification-allowlist", nil,
		"with NeverVerifyAllowlistedImages: the images that need no pull, as `repository,...`, such as registry.example/team/app or registry.example/team/*")
}

func (v *verifyFlags) check() error {
	if v.policy == neverVerify && len(v.allow) > 0 {
		return fmt.Errorf("--preloaded-images-verification-allowlist is only for the policy %s", pullrecords.NeverVerifyAllowlistedImages)
	}
	if v.policy == neverVerify {
		return nil
	}
	if err := v.options("").Check(); err != nil {
		return fmt.Errorf("--image-pull-credentials-verification-policy %s: %w", v.policy, err)
	}
	return nil
}

func (v *verifyFlags) options(dir string) pullrecords.Options {
	return pullrecords.Options{Dir: dir, Policy: pullrecords.Policy(v.policy), Allowlist: v.allow}
}

// apply keeps records of pulls, as long as their images.
func (v *verifyFlags) apply(f flags, o *node.Options) error {
	if v.policy == neverVerify || !f.pullsImages() {
		return nil
	}
	records, err := pullrecords.Open(v.options(filepath.Join(f.root, "pulls")))
	if err != nil {
		return err
	}
	o.PullRecords = records
	if o.ImageGC == nil {
		return nil
	}
	o.ImageGC.Collected = func(r imagegc.Result) {
		if r.Present == nil {
			return
		}
		present := make([]string, 0, len(r.Present))
		for _, image := range r.Present {
			present = append(present, image.ID)
		}
		if err := records.Prune(r.Started, present); err != nil {
			o.Logger.Warn("a record of pulls without an image is left", zap.Error(err))
		}
	}
	return nil
}
