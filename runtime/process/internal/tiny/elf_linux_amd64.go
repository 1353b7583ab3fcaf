// SPDX-License-Identifier: Apache-2.0

package tiny

const machine = 62
