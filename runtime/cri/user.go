// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	api "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageUser is an image's user: a number, a name, or neither, which means root.
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

// setUser sets the container's user: runAsUser, or the image's user. With runAsNonRoot, root and
// users not known to be other than root are refused.
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
