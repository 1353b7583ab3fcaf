// SPDX-License-Identifier: Apache-2.0

package kubeclient

import (
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// group is an API group and its types.
type group struct {
	version schema.GroupVersion
	add     func(*runtime.Scheme) error
}

// groups are the API groups of the kinds.
func groups() []group {
	return []group{
		{v1.SchemeGroupVersion, v1.AddToScheme},
		{authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme},
		{authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme},
		{certificatesv1.SchemeGroupVersion, certificatesv1.AddToScheme},
		{coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme},
		{nodev1.SchemeGroupVersion, nodev1.AddToScheme},
		{storagev1.SchemeGroupVersion, storagev1.AddToScheme},
	}
}

// encoding is the scheme with its codecs.
type encoding struct {
	scheme     *runtime.Scheme
	parameters runtime.ParameterCodec
	serializer runtime.NegotiatedSerializer
	err        error
}

var encodings = sync.OnceValue(newEncoding)

func newEncoding() (e encoding) {
	e.scheme = runtime.NewScheme()
	metav1.AddToGroupVersion(e.scheme, schema.GroupVersion{Version: "v1"})
	for _, g := range groups() {
		if e.err = g.add(e.scheme); e.err != nil {
			return e
		}
	}
	e.parameters = runtime.NewParameterCodec(e.scheme)
	e.serializer = rest.CodecFactoryForGeneratedClient(e.scheme, serializer.NewCodecFactory(e.scheme)).WithoutConversion()
	return e
}

// Scheme returns the scheme with the kinds of this package. It must not be changed.
func Scheme() *runtime.Scheme { return encodings().scheme }
