// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageUser is whom an image wants to run as: a number, a name, or nobody said,
// which is root.
type imageUser struct {
	uid  *int64
	name string
}

func userOfImage(image *api.Image) imageUser {
	if image.GetUid() != nil {
		uid := image.GetUid().GetValue()
		return imageUser{uid: &uid}
	}
	return imageUser{name: image.GetUsername()}
}

// setUser decides whom the container runs as: runAsUser, or the image's user.
// It refuses root, and whoever may be root, to a container with runAsNonRoot.
func setUser(out *api.LinuxContainerSecurityContext, sc *v1.SecurityContext, image imageUser) error {
	if isSet(sc.RunAsNonRoot) {
		if err := checkNonRoot(sc.RunAsUser, image); err != nil {
			return err
		}
	}
	switch {
	case sc.RunAsUser != nil:
		out.RunAsUser = int64Value(sc.RunAsUser)
	case image.uid != nil:
		out.RunAsUser = int64Value(image.uid)
	case image.name != "":
		out.RunAsUsername = image.name
	default:
		out.RunAsUser = &api.Int64Value{Value: 0}
	}
	out.RunAsGroup = int64Value(sc.RunAsGroup)
	return nil
}

func checkNonRoot(user *int64, image imageUser) error {
	switch {
	case user != nil && *user == 0:
		return errors.New("securityContext.runAsNonRoot: runAsUser is 0, which is root")
	case user != nil:
		return nil
	case image.uid != nil && *image.uid != 0:
		return nil
	case image.uid == nil && image.name != "":
		return fmt.Errorf("securityContext.runAsNonRoot: the image's user %q is no number, so it cannot be told whether it is root", image.name)
	default:
		return errors.New("securityContext.runAsNonRoot: the image runs as root")
	}
}
