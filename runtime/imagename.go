// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/keelson-dev/keelson/internal/registry"
)

// The grammar of image references: an optional registry[:port], lower-case path components, an
// optional tag and an optional digest.
var (
	imageComponent = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
	imageHost      = `(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?`
	imageTag       = `[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`
	imageDigest    = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`

	imageReference = regexp.MustCompile(`^((?:` + imageHost + `/)?` + imageComponent + `(?:/` + imageComponent + `)*)(?::(` + imageTag + `))?(?:@(` + imageDigest + `))?$`)
	bareImageID    = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// NormalizeImage checks an image reference, and adds ":latest" to a reference without tag and
// digest. No registry is added. The error names the invalid part.
func NormalizeImage(image string) (string, error) {
	switch {
	case image == "":
		return "", fmt.Errorf("the image has no name")
	case strings.Contains(image, "://"):
		return "", fmt.Errorf("image %q: a reference has no scheme", image)
	case bareImageID.MatchString(image):
		return "", fmt.Errorf("image %q: an ID is no reference", image)
	}
	parts := imageReference.FindStringSubmatch(image)
	switch {
	case parts == nil && imageReference.MatchString(strings.ToLower(image)):
		return "", fmt.Errorf("couldn't parse image name %q: invalid reference format: repository name (%s) must be lowercase", image, repositoryOf(image))
	case parts == nil:
		return "", fmt.Errorf("image %q: want [registry/]name[:tag][@digest]", image)
	case len(parts[1]) > 255:
		return "", fmt.Errorf("image %q: the name is longer than 255 characters", image)
	case parts[2] == "" && parts[3] == "":
		return image + ":latest", nil
	}
	return image, nil
}

// repositoryOf returns the name of an image without registry, tag and digest.
func repositoryOf(image string) string {
	place, _ := registry.Of(image)
	return place.Repository()
}
