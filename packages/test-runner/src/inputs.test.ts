import { expect, test } from 'vitest'
import { covers, declaredInputs, pathsOutside } from './inputs.ts'
import { testedPackages } from './workspace.ts'

test('a package declares what it reads outside of itself', () => {
  const faults = testedPackages().flatMap(({ folder }) => {
    const declared = declaredInputs(folder)
    return [...pathsOutside(folder)].flatMap(([path, file]) => {
      // Whoever takes the root itself, to read what a variable names, has to declare something.
      const isDeclared = path === '' ? declared.length > 0 : declared.some((pattern) => covers(pattern, path))
      return isDeclared ? [] : [`${file} reads ${path || 'the repository'}: name it in ${folder}/turbo.json`]
    })
  })
  expect(faults).toEqual([])
})

test('an import of a service from outside is found', () => {
  expect([...pathsOutside('testing').keys()]).toContain('services/api/src/compose.ts')
})

test('a pattern covers files, and folders with all that is in them', () => {
  expect(covers('services/*/src/**', 'services/api/src/compose.ts')).toBe(true)
  expect(covers('infra/proxy/**', 'infra/proxy')).toBe(true)
  expect(covers('services/*/src/**', 'services/api/test/ai.ts')).toBe(false)
})
