// SPDX-License-Identifier: Apache-2.0

package pullsecrets_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/pullsecrets"
)

// secrets are a namespace's.
type secrets map[string]*v1.Secret

func (s secrets) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	if secret := s[name]; namespace == "shop" && secret != nil {
		return secret, nil
	}
	return nil, errors.New("not found")
}

func configJSON(auths string) *v1.Secret {
	return &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":` + auths + `}`)}}
}

func podWith(names ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	for _, name := range names {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	return pod
}

// recorder keeps the messages of events.
type recorder []string

func (r *recorder) Event(object apiruntime.Object, eventType, reason, message string) {
	ref := object.(*v1.ObjectReference)
	*r = append(*r, fmt.Sprintf("%s %s/%s %s %s: %s", ref.Kind, ref.Namespace, ref.Name, eventType, reason, message))
}

func users(auths []runtime.ImageAuth) (out []string) {
	for _, a := range auths {
		out = append(out, a.Username)
	}
	return out
}

func find(t testing.TB, s secrets, events runtime.EventRecorder, pod *v1.Pod, image string) []runtime.ImageAuth {
	t.Helper()
	keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: s, Events: events})
	require.NoError(t, err)
	auths, err := keyring.Find(t.Context(), pod, image)
	require.NoError(t, err)
	return auths
}

func TestWhichCredentialsAreFor(t *testing.T) {
	for name, tc := range map[string]struct {
		registry, image string
		want            bool
	}{
		"the host":                   {"registry.example", "registry.example/app:1", true},
		"any path of it":             {"registry.example", "registry.example/a/b/c:1", true},
		"by digest":                  {"registry.example", "registry.example/app@sha256:0123", true},
		"with a scheme":              {"https://registry.example", "registry.example/app:1", true},
		"with plain http":            {"http://registry.example/", "registry.example/app:1", true},
		"whatever the case":          {"Registry.Example", "registry.example/app:1", true},
		"another host":               {"registry.example", "registry.example.org/app:1", false},
		"the host below":             {"example", "registry.example/app:1", false},
		"the port":                   {"registry.example:5000", "registry.example:5000/app:1", true},
		"another port":               {"registry.example:5000", "registry.example:5001/app:1", false},
		"no port":                    {"registry.example:5000", "registry.example/app:1", false},
		"a port that was not named":  {"registry.example", "registry.example:5000/app:1", false},
		"the path":                   {"registry.example/team", "registry.example/team/app:1", true},
		"the very image":             {"registry.example/team/app", "registry.example/team/app:1", true},
		"a path that begins so":      {"registry.example/team", "registry.example/team-b/app:1", false},
		"another path":               {"registry.example/team", "registry.example/other/app:1", false},
		"docker's /v1/":              {"https://registry.example/v1/", "registry.example/app:1", true},
		"docker's /v2/ and a path":   {"registry.example/v2/team", "registry.example/team/app:1", true},
		"a star":                     {"*.example", "registry.example/app:1", true},
		"a star in a part":           {"reg*y.example", "registry.example/app:1", true},
		"two stars":                  {"r*g*y.example", "registry.example/app:1", true},
		"a star is one part":         {"*.example", "a.registry.example/app:1", false},
		"a star is not all":          {"r*x.example", "registry.example/app:1", false},
		"pieces do not overlap":      {"regis*istry.example", "registry.example/app:1", false},
		"the hub":                    {"https://index.docker.io/v1/", "busybox:1", true},
		"the hub by its other name":  {"docker.io", "docker.io/library/busybox:1", true},
		"the hub and a team":         {"docker.io/team", "team/app:1", true},
		"the hub's library":          {"docker.io/library", "busybox", true},
		"the hub is not everybody's": {"docker.io", "registry.example/app:1", false},
		"localhost":                  {"localhost:5000", "localhost:5000/app:1", true},
		"an address":                 {"127.0.0.1:5000", "127.0.0.1:5000/app:1", true},
		"an IPv6 address":            {"[::1]:5000", "[::1]:5000/app:1", true},
		"nonsense":                   {"", "registry.example/app:1", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := secrets{"a": configJSON(fmt.Sprintf(`{%q: {"username": "u", "password": "p"}}`, tc.registry))}
			auths := find(t, s, nil, podWith("a"), tc.image)
			if tc.want {
				assert.Equal(t, []runtime.ImageAuth{{Username: "u", Password: "p", Secret: "shop/a/"}}, auths)
			} else {
				assert.Empty(t, auths)
			}
		})
	}
}

func TestOrderIsTheMostParticularFirstThenThatOfThePod(t *testing.T) {
	s := secrets{
		"a": configJSON(`{"*.example": {"username": "star"}, "registry.example": {"username": "host"}, "registry.example/team/app": {"username": "image"}}`),
		"b": configJSON(`{"registry.example": {"username": "host"}, "registry.example/team": {"username": "team"}, "https://registry.example": {"username": "host2"}}`),
	}
	assert.Equal(t, []string{"image", "team", "host", "host2", "star"}, users(find(t, s, nil, podWith("a", "b"), "registry.example/team/app:1")))
	assert.Equal(t, []string{"image", "team", "host2", "host", "star"}, users(find(t, s, nil, podWith("b", "a"), "registry.example/team/app:1"))[:5])
	assert.Nil(t, find(t, s, nil, podWith(), "registry.example/team/app:1"))
}

func TestFormsOfCredentials(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("user:pass:word\x00\x00"))
	for name, tc := range map[string]struct {
		entry string
		want  runtime.ImageAuth
	}{
		"user and password": {`{"username": "user", "password": "word"}`, runtime.ImageAuth{Username: "user", Password: "word"}},
		"auth":              {`{"auth": "` + auth + `"}`, runtime.ImageAuth{Username: "user", Password: "pass:word"}},
		"auth counts":       {`{"username": "x", "password": "y", "auth": "dTpw"}`, runtime.ImageAuth{Username: "u", Password: "p"}},
		"no padding":        {`{"auth": "dXNlcjpw"}`, runtime.ImageAuth{Username: "user", Password: "p"}},
		"tokens":            {`{"identitytoken": "i", "registrytoken": "r"}`, runtime.ImageAuth{IdentityToken: "i", RegistryToken: "r"}},
	} {
		t.Run(name, func(t *testing.T) {
			inside := fmt.Sprintf(`{"r.example": %s}`, tc.entry)
			old := &v1.Secret{Type: v1.SecretTypeDockercfg, Data: map[string][]byte{v1.DockerConfigKey: []byte(inside)}}
			tc.want.Secret = "shop/a/1"
			for _, secret := range []*v1.Secret{configJSON(inside), old} {
				secret.UID = "1"
				assert.Equal(t, []runtime.ImageAuth{tc.want}, find(t, secrets{"a": secret}, nil, podWith("a"), "r.example/app:1"))
			}
		})
	}
}

// What cannot be used is said, by name, and keeps nothing else from being used.
func TestSecretsOfNoUse(t *testing.T) {
	const canary = "hunter2"
	s := secrets{
		"opaque":  {Type: v1.SecretTypeOpaque, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(canary)}},
		"empty":   {Type: v1.SecretTypeDockerConfigJson},
		"broken":  configJSON(canary),
		"useless": configJSON(`{"r.example": {"auth": "` + canary + `!"}}`),
		"half":    configJSON(`{"r.example": 7, "r.example/app": {"username": "half"}, " ": {"username": "x"}}`),
		"good":    configJSON(`{"r.example": {"username": "good"}}`),
	}
	var events recorder
	pod := podWith("opaque", "gone", "empty", "", "broken", "useless", "half", "good")
	assert.Equal(t, []string{"half", "good"}, users(find(t, s, &events, pod, "r.example/app:1")))
	assert.Equal(t, recorder{"Pod shop/web Warning FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets " +
		"(opaque, gone, empty, broken, useless); attempting to pull the image may not succeed."}, events)

	_, err := pullsecrets.New(pullsecrets.Options{})
	require.ErrorContains(t, err, "Options.Secrets")
	ctx, cancel := context.WithCancelCause(t.Context())
	away := errors.New("away")
	cancel(away)
	keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: s})
	require.NoError(t, err)
	_, err = keyring.Find(ctx, pod, "r.example/app:1")
	require.ErrorIs(t, err, away)
}

// write writes a config.json, and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// The pod's own credentials are tried first, however particular the node's are.
func TestTheNodesCredentialsComeAfterThePods(t *testing.T) {
	s := secrets{
		"wide":   configJSON(`{"r.example": {"username": "pod", "password": "p"}}`),
		"common": configJSON(`{"r.example": {"username": "both", "password": "b"}}`),
	}
	name := write(t, `{"auths": {
		"r.example/team": {"username": "team", "password": "t"},
		"r.example": {"username": "both", "password": "b"},
		"other.example": {"username": "other", "password": "o"}}}`)
	keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: s, File: name, Trouble: func(err error) { t.Error(err) }})
	require.NoError(t, err)
	find := func(pod *v1.Pod) []string {
		auths, err := keyring.Find(t.Context(), pod, "r.example/team/app:1")
		require.NoError(t, err)
		return users(auths)
	}
	assert.Equal(t, []string{"pod", "team", "both"}, find(podWith("wide")))
	assert.Equal(t, []string{"both", "team"}, find(podWith("common")), "the same is not tried twice")
	assert.Equal(t, []string{"team", "both"}, find(podWith()), "a pod without secrets has the node's")

	require.NoError(t, os.WriteFile(name, []byte(`{"auths": {"r.example": {"username": "new", "password": "n"}}}`), 0o600))
	assert.Equal(t, []string{"new"}, find(podWith()), "at the next pull")
	require.NoError(t, os.Remove(name))
	assert.Empty(t, find(podWith()), "none is no trouble")

	keyring, err = pullsecrets.New(pullsecrets.Options{File: name, Events: &recorder{}})
	require.NoError(t, err)
	assert.Empty(t, find(podWith("wide")), "of a node without secrets")
}

// Why a file is of no use is told with its name, and with nothing of its content.
func TestTroubleWithTheNodesCredentialsHasNoContent(t *testing.T) {
	dir := t.TempDir()
	for text, name := range map[string]string{
		"cannot be read":     write(t, `{"auths": {"r.example": {"username": "hunter2"`),
		"the credentials":    write(t, `{"auths": {"r.example": {"auth": "hunter2!"}}}`),
		"not a regular file": dir,
		"more than 1048576":  write(t, strings.Repeat("hunter2", 1<<20)),
		"not a directory":    write(t, `hunter2`) + "/config.json",
	} {
		var told []error
		keyring, err := pullsecrets.New(pullsecrets.Options{File: name, Trouble: func(err error) { told = append(told, err) }})
		require.NoError(t, err)
		auths, err := keyring.Find(t.Context(), podWith(), "r.example/app:1")
		require.NoError(t, err, "the image may be one that everybody may have")
		require.Empty(t, auths)
		require.Len(t, told, 1, text)
		require.ErrorContains(t, told[0], text)
		require.ErrorContains(t, told[0], name)
		require.NotContains(t, told[0].Error(), "hunter2")
	}
}

// FuzzFind: whatever is in a secret, nothing breaks, and credentials for one host are never for another.
func FuzzFind(f *testing.F) {
	f.Add(`{"r.example": {"username": "u"}}`, "r.example/app:1")
	f.Add(`{"https://r.example:5000/v2/a": {"auth": "dTpw"}}`, "r.example:5000/a/b@sha256:00")
	f.Add(`{"*": {"username": "u"}}`, "a")
	f.Fuzz(func(t *testing.T, auths, image string) {
		s := secrets{"a": configJSON(auths), "own": configJSON(`{"private.example": {"username": "mine", "password": "p"}}`)}
		keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: s})
		require.NoError(t, err)
		found, err := keyring.Find(t.Context(), podWith("own"), image)
		require.NoError(t, err)
		if len(found) > 0 {
			require.Regexp(t, `(?i)^private\.example/`, image)
		}
		_, err = keyring.Find(t.Context(), podWith("a"), image)
		require.NoError(t, err)
	})
}

// cluster has one Secret, of each name.
type cluster struct{}

func (cluster) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	fmt.Println("look up", namespace+"/"+name)
	return configJSON(`{"registry.example/team": {"username": "robot", "password": "secret"}}`), nil
}

func Example() {
	keyring, err := pullsecrets.New(pullsecrets.Options{Secrets: cluster{}}) // in an agent: what it knows of the API server
	if err != nil {
		fmt.Println(err)
		return
	}
	auths, err := keyring.Find(context.Background(), podWith("registry"), "registry.example/team/app:1")
	fmt.Println(auths, err)
	// Output:
	// look up shop/registry
	// [(credentials)] <nil>
}
