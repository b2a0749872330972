import { useParams } from "@solidjs/router";

export default function Person() {
  const params = useParams();
  return <h1>{`Hello ${params.name}`}</h1>;
}
