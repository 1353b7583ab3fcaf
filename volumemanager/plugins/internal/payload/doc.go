// SPDX-License-Identifier: Apache-2.0

// Package payload writes the files of a configMap, secret, downwardAPI or projected volume, so that who reads them sees
// all of the old version or all of the new one, and so that a crash at any step is mended by the next Write.
//
// What is in the folder of a volume, as the kubelet and the programs in containers know it:
//
//	..2026_11_21_02_09_18.1804289383/   one version, never changed once it is committed
//	..data -> ..2026_11_21_02_09_18.…   the current one; renaming this link is the commit
//	..data_tmp                          the link before it is renamed
//	key -> ..data/key                   one per first path element, what containers read
//
// Steps of Write, and what the next one does about a crash after each:
//
//	1  make the version's folder, 0700     not referenced by ..data: removed
//	2  write, chmod, chown, sync the files the same
//	3  link ..data_tmp                     removed before it is made again (upstream fails with EEXIST for ever)
//	   (the first version is linked as ..data at once: there is nothing to replace)
//	4  rename to ..data                    committed; links are added and removed, old versions removed
//	5  add links for new keys              the same
//	6  remove links of keys that are gone  the same
//	7  remove old versions                 the same
package payload
