// SPDX-License-Identifier: Apache-2.0

package volumeapi

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// The interfaces of this file have the signatures of client-go's typed clients. volumeapi does not
// import these, because they link the types of all API groups. FromCore and FromStorage adapt them.

// Reader reads an object of a kind from the database of the server.
type Reader[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
}

// Watcher opens watches.
type Watcher interface {
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// ConfigMaps reads the ConfigMaps of a namespace.
type ConfigMaps interface {
	Reader[*v1.ConfigMap]
	Watcher
}

// Secrets reads the Secrets of a namespace.
type Secrets interface {
	Reader[*v1.Secret]
	Watcher
}

// ServiceAccounts creates tokens of the service accounts of a namespace.
type ServiceAccounts interface {
	CreateToken(ctx context.Context, name string, r *authenticationv1.TokenRequest, o metav1.CreateOptions) (*authenticationv1.TokenRequest, error)
}

// Nodes reads and patches Node objects.
type Nodes interface {
	Reader[*v1.Node]
	Watcher
	List(ctx context.Context, o metav1.ListOptions) (*v1.NodeList, error)
	Patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*v1.Node, error)
}

// CSINodes reads and writes CSINode objects.
type CSINodes interface {
	Reader[*storagev1.CSINode]
	Create(ctx context.Context, n *storagev1.CSINode, o metav1.CreateOptions) (*storagev1.CSINode, error)
	Update(ctx context.Context, n *storagev1.CSINode, o metav1.UpdateOptions) (*storagev1.CSINode, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// CSIDrivers reads CSIDriver objects.
type CSIDrivers interface {
	Watcher
	List(ctx context.Context, o metav1.ListOptions) (*storagev1.CSIDriverList, error)
}

// ObjectsClient reads ConfigMaps and Secrets, for example FromCore(CoreV1()) with client-go.
type ObjectsClient interface {
	ConfigMaps(namespace string) ConfigMaps
	Secrets(namespace string) Secrets
}

// ClaimsClient reads claims and volumes, for example FromCore(CoreV1()) with client-go.
type ClaimsClient interface {
	PersistentVolumeClaims(namespace string) Reader[*v1.PersistentVolumeClaim]
	PersistentVolumes() Reader[*v1.PersistentVolume]
}

// TokensClient creates tokens, for example FromCore(CoreV1()) with client-go.
type TokensClient interface {
	ServiceAccounts(namespace string) ServiceAccounts
}

// NodesClient reads and patches nodes, for example FromCore(CoreV1()) with client-go.
type NodesClient interface{ Nodes() Nodes }

// Core is a client of the API group core. It implements ObjectsClient, ClaimsClient, TokensClient
// and NodesClient.
type Core struct {
	configMaps      func(namespace string) ConfigMaps
	secrets         func(namespace string) Secrets
	claims          func(namespace string) Reader[*v1.PersistentVolumeClaim]
	volumes         func() Reader[*v1.PersistentVolume]
	serviceAccounts func(namespace string) ServiceAccounts
	nodes           func() Nodes
}

// FromCore returns a Core on a client such as CoreV1() of client-go. The type arguments are inferred.
func FromCore[M ConfigMaps, S Secrets, C Reader[*v1.PersistentVolumeClaim], V Reader[*v1.PersistentVolume], A ServiceAccounts, N Nodes](c interface {
	ConfigMaps(namespace string) M
	Secrets(namespace string) S
	PersistentVolumeClaims(namespace string) C
	PersistentVolumes() V
	ServiceAccounts(namespace string) A
	Nodes() N
}) Core {
	return Core{
		configMaps:      func(namespace string) ConfigMaps { return c.ConfigMaps(namespace) },
		secrets:         func(namespace string) Secrets { return c.Secrets(namespace) },
		claims:          func(namespace string) Reader[*v1.PersistentVolumeClaim] { return c.PersistentVolumeClaims(namespace) },
		volumes:         func() Reader[*v1.PersistentVolume] { return c.PersistentVolumes() },
		serviceAccounts: func(namespace string) ServiceAccounts { return c.ServiceAccounts(namespace) },
		nodes:           func() Nodes { return c.Nodes() },
	}
}

// ConfigMaps implements ObjectsClient.
func (c Core) ConfigMaps(namespace string) ConfigMaps { return c.configMaps(namespace) }

// Secrets implements ObjectsClient.
func (c Core) Secrets(namespace string) Secrets { return c.secrets(namespace) }

// PersistentVolumeClaims implements ClaimsClient.
func (c Core) PersistentVolumeClaims(namespace string) Reader[*v1.PersistentVolumeClaim] {
	return c.claims(namespace)
}

// PersistentVolumes implements ClaimsClient.
func (c Core) PersistentVolumes() Reader[*v1.PersistentVolume] { return c.volumes() }

// ServiceAccounts implements TokensClient.
func (c Core) ServiceAccounts(namespace string) ServiceAccounts { return c.serviceAccounts(namespace) }

// Nodes implements NodesClient.
func (c Core) Nodes() Nodes { return c.nodes() }

// Storage is a client of the API group storage.k8s.io.
type Storage struct {
	nodes       func() CSINodes
	drivers     func() CSIDrivers
	attachments func() Reader[*storagev1.VolumeAttachment]
}

// FromStorage returns a Storage on a client such as StorageV1() of client-go. The type arguments are
// inferred.
func FromStorage[N CSINodes, D CSIDrivers, A Reader[*storagev1.VolumeAttachment]](c interface {
	CSINodes() N
	CSIDrivers() D
	VolumeAttachments() A
}) Storage {
	return Storage{
		nodes:       func() CSINodes { return c.CSINodes() },
		drivers:     func() CSIDrivers { return c.CSIDrivers() },
		attachments: func() Reader[*storagev1.VolumeAttachment] { return c.VolumeAttachments() },
	}
}

// StorageClient is a client of the API group storage.k8s.io, for example FromStorage(StorageV1()) with
// client-go.
type StorageClient interface {
	CSINodes() CSINodes
	CSIDrivers() CSIDrivers
	VolumeAttachments() Reader[*storagev1.VolumeAttachment]
}

// CSINodes implements StorageClient.
func (s Storage) CSINodes() CSINodes { return s.nodes() }

// CSIDrivers implements StorageClient.
func (s Storage) CSIDrivers() CSIDrivers { return s.drivers() }

// VolumeAttachments implements StorageClient.
func (s Storage) VolumeAttachments() Reader[*storagev1.VolumeAttachment] { return s.attachments() }
