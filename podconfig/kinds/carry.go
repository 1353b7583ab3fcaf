// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A carrier is an object in the form of a pod, on the way from Expander.Pods through a source to a
// Controller. So the rules of the source about a file's last valid content, and about files with
// the same objects, apply to all kinds. A carrier never reaches a node: Controller.Source keeps it.

// carriedAnnotation has the object of a carrier as JSON.
const carriedAnnotation = "keelson.dev/carried-object"

// carriedNames are the first parts of a carrier's name. The slash is in no name of a pod.
const (
	carriedConfigMap = "configmap/"
	carriedSecret    = "secret/"
	carriedClaim     = "persistentvolumeclaim/"
	carriedService   = "service/"
	carriedJob       = "job/"
	carriedCronJob   = "cronjob/"
)

// carry returns the pods of a set, after the carriers of its other objects.
func (s *Set) carry() (all []*v1.Pod, err error) {
	add := func(prefix, namespace, name string, object any) {
		data, jsonErr := json.Marshal(object)
		if jsonErr != nil && err == nil {
			err = fmt.Errorf("%s%s: %w", prefix, name, jsonErr)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s%s/%s\n%s", prefix, namespace, name, data))
		all = append(all, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: prefix + name, UID: types.UID(hex.EncodeToString(sum[:16])),
			Annotations: map[string]string{carriedAnnotation: string(data)},
		}})
	}
	for _, c := range s.ConfigMaps {
		add(carriedConfigMap, c.Namespace, c.Name, c)
	}
	for _, c := range s.Secrets {
		add(carriedSecret, c.Namespace, c.Name, c)
	}
	for _, c := range s.Claims {
		add(carriedClaim, c.Namespace, c.Name, c)
	}
	for _, c := range s.Services {
		add(carriedService, c.Namespace, c.Name, c)
	}
	for _, c := range s.Jobs {
		add(carriedJob, c.Namespace, c.Name, c)
	}
	for _, c := range s.CronJobs {
		add(carriedCronJob, c.Namespace, c.Name, c)
	}
	return append(all, s.Pods...), err
}

// isCarrier reports whether a pod of a source is a carrier.
func isCarrier(pod *v1.Pod) bool { return strings.Contains(pod.Name, "/") }

// uncarry adds the object of a carrier to a set.
func (s *Set) uncarry(pod *v1.Pod) error {
	data := []byte(pod.Annotations[carriedAnnotation])
	kind, _, _ := strings.Cut(pod.Name, "/")
	var err error
	switch kind + "/" {
	case carriedConfigMap:
		err = take(data, &s.ConfigMaps)
	case carriedSecret:
		err = take(data, &s.Secrets)
	case carriedClaim:
		err = take(data, &s.Claims)
	case carriedService:
		err = take(data, &s.Services)
	case carriedJob:
		err = take(data, &s.Jobs)
	case carriedCronJob:
		err = take(data, &s.CronJobs)
	default:
		err = errors.New("unknown kind of an object")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", pod.Name, err)
	}
	return nil
}

func take[T any](data []byte, list *[]*T) error {
	object := new(T)
	err := json.Unmarshal(data, object)
	*list = append(*list, object)
	return err
}
