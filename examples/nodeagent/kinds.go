// SPDX-License-Identifier: Apache-2.0

//go:build !nokinds

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync/atomic"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig"
	"github.com/keelson-dev/keelson/podconfig/kinds"
	"github.com/keelson-dev/keelson/podconfig/manifest"
	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/objects"
)

// kindFlags are the flags about objects other than pods.
type kindFlags struct{ classes []string }

func (k *kindFlags) register(set *pflag.FlagSet) {
	set.StringSliceVar(&k.classes, "storage-class", nil, "storage classes whose claims in manifests become folders of this node, besides "+kinds.DefaultClass+", as `name,...`; without its class, a claim that has a folder keeps the folder")
}

func (k *kindFlags) complete() error {
	for _, class := range k.classes {
		if wrong := validation.IsDNS1123Subdomain(class); len(wrong) > 0 {
			return fmt.Errorf("--storage-class %q: %s", class, wrong[0])
		}
	}
	return nil
}

// newDecode returns the decoder of manifests with several documents and kinds other than Pod. warn may
// be nil.
func newDecode(f flags, warn func(manifest.Origin, string)) func([]byte, manifest.Origin) ([]*v1.Pod, error) {
	labels := map[string]string{v1.LabelHostname: f.node, v1.LabelOSStable: goruntime.GOOS, v1.LabelArchStable: goruntime.GOARCH}
	maps.Copy(labels, f.offer.labels)
	decoder := newDecoder(f)
	decoder.Policy = kindsPolicy(f)
	x := &kinds.Expander{
		Decoder: decoder, NodeLabels: labels, Warn: warn,
		Classes: append([]string{kinds.DefaultClass}, f.kinds.classes...),
		Bound: func(namespace, name string) bool {
			_, err := os.Lstat(claimDir(f, namespace, name))
			return !errors.Is(err, fs.ErrNotExist) // in doubt, the pod of a bound claim stays
		},
	}
	return x.Pods
}

// claimDir is the folder of a claim.
func claimDir(f flags, namespace, name string) string {
	return filepath.Join(f.root, "claims", namespace, name)
}

// kindsPolicy is staticPolicy for pods that may refer to the objects of other manifests.
func kindsPolicy(f flags) func(*v1.Pod) error {
	policy := staticPolicy(f)
	return func(pod *v1.Pod) error { return policy(kinds.WithoutObjects(pod)) }
}

// localKinds are the kinds other than Pod on this node.
type localKinds struct {
	*kinds.Controller
	flags flags
	log   *zap.Logger
	host  *atomic.Pointer[feature.Host] // nil before the agent has begun
}

// newKinds returns the controller of Jobs and other kinds, which writes ConfigMaps and Secrets to
// store.
func newKinds(f flags, store *objects.Store, log *zap.Logger) (*localKinds, error) {
	opts := kinds.Options{Dir: filepath.Join(f.root, "kinds"), Objects: storedObjects{store}, Address: "127.0.0.1", Logger: log}
	if f.network.kind == networkPasta {
		opts.Address = "" // a pod with a network of its own does not reach another one at the node's address
		log.Info("with --pod-network=pasta, Services have no address in pods")
	}
	host := &atomic.Pointer[feature.Host]{}
	opts.Event = func(pod *v1.Pod, eventType, reason, message string) {
		if h := host.Load(); h != nil {
			h.Event(pod, eventType, reason, message)
		}
	}
	c, err := kinds.New(opts)
	if err != nil {
		return nil, err
	}
	return &localKinds{c, f, log, host}, nil
}

// decode is the decoder of the sources.
func (k *localKinds) decode() func([]byte, manifest.Origin) ([]*v1.Pod, error) {
	return newDecode(k.flags, func(o manifest.Origin, warning string) {
		k.log.Warn("part of a manifest has no effect", zap.String("file", o.Location), zap.String("at", warning))
	})
}

// wrap returns the sources with the pods of Jobs.
func (k *localKinds) wrap(sources []podconfig.Source) (all []podconfig.Source) {
	for _, s := range sources {
		all = append(all, k.Source(s))
	}
	return all
}

// storedObjects writes to the store of ConfigMaps and Secrets.
type storedObjects struct{ *objects.Store }

func (s storedObjects) DeleteConfigMap(namespace, name string) {
	s.Delete(objects.Ref{Kind: objects.ConfigMap, Namespace: namespace, Name: name})
}

func (s storedObjects) DeleteSecret(namespace, name string) {
	s.Delete(objects.Ref{Kind: objects.Secret, Namespace: namespace, Name: name})
}

// features returns the feature that tells the controller of the pods' statuses, and adds the names of
// Services to the hosts files of containers.
func (k *localKinds) features(h *feature.Host) []feature.Feature {
	k.host.Store(h)
	own := feature.Feature{Name: "kinds", Published: k.Observe, Housekeep: k.Housekeep}
	if k.flags.endpoint != processEndpoint {
		own.Container = func(_ context.Context, pod *v1.Pod, _ *v1.Container, spec *runtime.ContainerSpec) error {
			if aliases := k.HostAliases(pod); len(aliases) > 0 && podconfig.IsStatic(pod) {
				spec.Pod = spec.Pod.DeepCopy()
				spec.Pod.Spec.HostAliases = append(spec.Pod.Spec.HostAliases, aliases...)
			}
			return nil
		}
	}
	return []feature.Feature{own}
}

// apply adds the claims and Services of manifests to the options of the agent, for static pods.
func (k *localKinds) apply(opts *node.Options) {
	claims, services := opts.Cluster.Claims, opts.Cluster.Services
	opts.Cluster.Claims = volumemanager.ClaimsFunc(func(ctx context.Context, pod *v1.Pod, volume v1.Volume) (volumemanager.Spec, error) {
		if !podconfig.IsStatic(pod) && claims != nil {
			return claims.Resolve(ctx, pod, volume)
		}
		return k.resolve(pod, volume)
	})
	opts.Cluster.Services = func(ctx context.Context, pod *v1.Pod) ([]*v1.Service, error) {
		var all []*v1.Service
		if podconfig.IsStatic(pod) {
			all, _ = k.Services(ctx, pod)
		}
		if services == nil {
			return all, nil
		}
		others, err := services(ctx, pod)
		return append(all, others...), err
	}
}

// claimMode are the permissions of a claim's folder. A pod with fsGroup gets the folder's group.
const claimMode = 0o770

// resolve returns the volume of a claim: a folder of the node, which is never deleted.
func (k *localKinds) resolve(pod *v1.Pod, volume v1.Volume) (volumemanager.Spec, error) {
	if volume.PersistentVolumeClaim == nil {
		return volumemanager.Spec{}, errors.New("this node has no claims that belong to a single pod: use emptyDir")
	}
	ref := volume.PersistentVolumeClaim
	claim := k.Claim(pod.Namespace, ref.ClaimName)
	if claim == nil {
		return volumemanager.Spec{}, fmt.Errorf("no manifest of this node has the claim %s/%s", pod.Namespace, ref.ClaimName)
	}
	path := claimDir(k.flags, pod.Namespace, ref.ClaimName)
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return volumemanager.Spec{}, err
	}
	if err := os.Mkdir(path, claimMode); err == nil {
		err = os.Chmod(path, claimMode) // the umask
		if err != nil {
			return volumemanager.Spec{}, err
		}
	} else if !os.IsExist(err) {
		return volumemanager.Spec{}, err
	}
	return volumemanager.Spec{ReadOnly: ref.ReadOnly, PV: &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace + "." + ref.ClaimName},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, VolumeMode: claim.Spec.VolumeMode,
			ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: pod.Namespace, Name: ref.ClaimName},
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		},
	}}, nil
}
